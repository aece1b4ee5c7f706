//! Each request is counted once, under one outcome.

use axum::http::header;
use idem_runtime::{
    Idempotency,
    store::{Fault, Verb},
};
use idem_tests::server::Answer;

use crate::{
    app::{Test, start},
    routes::DOOR,
};

/// Sends a keyless request, or one with something wrong about it.
async fn wrong(test: &Test, path: &str, key: Option<&str>) -> u16 {
    let request = test.server.keyless(path);
    let request = if let Some(key) = key { request.header("idempotency-key", key) } else { request };
    Answer::to(request).await.status
}

/// K28: the whole table but those that `leases`, `settling` and `waiting` show.
#[tokio::test]
async fn each_refusal_is_counted_once() {
    let test = start().await;
    assert_eq!(wrong(&test, "/pay", None).await, 400);
    assert_eq!(wrong(&test, "/pay", Some("")).await, 400);
    assert_eq!(wrong(&test, "/optional", Some("")).await, 400);
    assert_eq!(wrong(&test, "/optional", None).await, 201);
    assert_eq!(test.send("/pay").await.status, 201);
    assert_eq!(test.send("/pay").await.status, 201);
    assert_eq!(test.send("/pay?other").await.problem(), "idempotency_key_reused");
    test.check(2, &["key_missing", "key_invalid", "key_invalid", "unprotected", "executed", "replayed", "mismatch"]);
}

/// Who has the key finds its events, and who has an event can check a key.
#[tokio::test]
async fn an_event_names_its_record() {
    let test = start().await;
    assert_eq!(test.send("/pay").await.status, 201);
    let events = test.seen.events();
    let named: Vec<_> = events.iter().filter_map(|event| event.get("record")).collect();
    assert_eq!(named, [&test.idempotency.record_name(&format!("{DOOR}POST /pay"), Idempotency::NO_SCOPE, "k1")]);
}

/// The numbers that go with them: handler and store times, failures, and running attempts.
#[tokio::test]
async fn times_and_running_attempts_are_measured() {
    let test = start().await;
    test.store.next(Verb::Claim, Fault::Fail);
    let first = test.begin("/slow");
    test.ledger.begun(1).await;
    let during = test.seen.text();
    assert!(during.contains("idem_running_attempts") && during.contains("Gauge(1.0)"), "{during}");
    assert!(during.contains("idem_store_errors_total") && during.contains("Counter(1)"), "{during}");
    test.ledger.open();
    first.await.unwrap();
    let after = test.seen.text();
    for name in ["idem_handler_seconds", "idem_store_seconds", "claim", "complete", "memory", "POST /slow"] {
        assert!(after.contains(name), "{name} in {after}");
    }
    // Each look empties the recorder, so an end shows as one less.
    assert!(after.rsplit_once("idem_running_attempts").unwrap().1.contains("Gauge(-1.0)"), "{after}");
}

/// Labels stay few: an unmatched path or an odd method is no operation of its own.
#[tokio::test]
async fn a_fallback_is_one_operation_whatever_the_path() {
    let test = start().await;
    for path in ["/nowhere/1", "/nowhere/2"] {
        assert_eq!(test.send(path).await.status, 201);
        assert_eq!(test.send(path).await.status, 201);
    }
    test.check(2, &["executed", "replayed", "executed", "replayed"]);
    assert!(
        test.seen.events().iter().all(|event| event["operation"] == format!("{DOOR}POST (no route)")),
        "{}",
        test.seen.text()
    );
    let before = test.seen.events().len();
    assert_eq!(test.send("/named").await.status, 201);
    assert_eq!(test.seen.events()[before]["operation"], format!("{DOOR}named"));
}

/// Safe methods and requests that are refused before idempotency is asked are no outcomes.
#[tokio::test]
async fn what_is_not_guarded_is_not_counted() {
    let test = start().await;
    assert_eq!(Answer::to(test.server.get("/pay")).await.status, 405);
    let large = test.server.post("/pay", "k1").header(header::CONTENT_TYPE, "x/y").body(vec![0; 3 << 20]);
    assert_eq!(Answer::to(large).await.status, 413);
    assert!(test.store.last_claim().is_none());
    test.check(0, &[]);
}
