//! Keys, bodies and credentials stay with the caller.

use idem_runtime::store::{Fault, State, Verb};
use idem_tests::server::Answer;

use crate::app::{Test, start};

const SECRET: &str = "s3cret-sentinel";

fn request(test: &Test, path: &str) -> reqwest::RequestBuilder {
    test.server
        .post(path, &format!("key-{SECRET}"))
        .header("authorization", format!("Bearer {SECRET}"))
        .header("cookie", format!("session={SECRET}"))
        .header("x-api-key", SECRET)
        .header("content-type", "application/json")
        .body(format!("{{\"card\": \"{SECRET}\"}}"))
}

/// Through every outcome: events, metrics, problems, and what the store was given.
#[tokio::test]
async fn no_event_metric_problem_or_record_holds_them() {
    let test = start().await;
    let mut answers = Vec::new();
    for path in ["/pay", "/hold", "/run", "/optional", "/nowhere"] {
        for fault in [None, Some(Fault::Fail), Some(Fault::Corrupt), Some(Fault::Damage)] {
            if let Some(fault) = fault {
                test.store.every(Verb::Claim, fault);
            }
            answers.push(Answer::to(request(&test, path)).await);
            test.store.heal();
            answers.push(Answer::to(request(&test, path)).await);
        }
        answers.push(Answer::to(request(&test, path).header("cookie", "another")).await);
        answers.push(Answer::to(request(&test, path).header("content-type", "x/y")).await);
        answers.push(Answer::to(request(&test, &format!("{path}?{SECRET}"))).await);
    }
    answers.push(Answer::to(test.server.keyless("/pay").header("idempotency-key", format!("é{SECRET}"))).await);
    for verb in [Verb::Complete, Verb::Release, Verb::Hold] {
        for (path, status) in [("/pay", 201), ("/pay", 500), ("/hold", 500)] {
            test.store.next(verb, Fault::Fail);
            test.ledger.answer_with(&[status]);
            answers.push(Answer::to(request(&test, &format!("{path}?{verb:?}{status}"))).await);
        }
    }
    test.drained().await;

    let told = test.seen.text();
    assert!(told.contains("executed") && told.contains("idem_requests_total"), "something was captured");
    assert!(!told.contains(SECRET), "{told}");
    for answer in &answers {
        assert!(!answer.text().contains(SECRET) && !format!("{:?}", answer.headers).contains(SECRET));
    }
    let claim = test.store.last_claim().unwrap();
    let record = test.record().await;
    assert_ne!(record.as_ref().map(|record| record.state), Some(State::InProgress));
    let mut given = format!("{claim:?} {record:?}").into_bytes();
    given.extend_from_slice(claim.id.as_bytes());
    given.extend_from_slice(claim.fingerprint.as_bytes());
    assert!(!given.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
}

/// The same of a store's own file.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn no_file_holds_them() {
    use idem_runtime::Idempotency;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("idem.db");
    let idempotency = Idempotency::connect(&format!("sqlite:{}", path.display())).await.unwrap();
    let mut test = start().await;
    let app = crate::app::App { ledger: test.ledger.clone(), idempotency: idempotency.clone() };
    test.server = idem_tests::server::Server::start(crate::app::router(app)).await;
    for path in ["/pay", "/hold", "/nowhere"] {
        assert_eq!(Answer::to(request(&test, path)).await.status, 201);
        assert!(Answer::to(request(&test, path)).await.is_replay());
    }
    let mut read = 0;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        read += bytes.len();
        assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
    }
    assert!(read > 4096, "the records are in there");
}

/// What a handler may print by mistake.
#[tokio::test]
async fn the_wrappers_argument_shows_nothing() {
    type Captured = idem_runtime::__private::NeedsIdempotency<String>;
    async fn show(captured: Captured) -> String {
        format!("{captured:?}")
    }
    let router = axum::Router::new().route("/show", axum::routing::post(show));
    let state = idem_runtime::Idempotency::new(idem_runtime::store::MemoryStore::new());
    let server = idem_tests::server::Server::start(router.with_state(state)).await;
    let request = server.post("/show", SECRET).header("authorization", SECRET).header("cookie", SECRET).body(SECRET);
    let shown = Answer::to(request).await;
    assert!(
        shown.status == 200 && shown.text().contains("Guarded") && !shown.text().contains(SECRET),
        "{}",
        shown.text()
    );
}
