//! The local cache: what it answers, and what it must never say.

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use idem_runtime::{
    Idempotency, idempotent,
    store::{Fault, Gate, State as Stored, Store as _, Verb},
};
use idem_tests::server::{Answer, Server};

use crate::app::{App, Ledger, Test, refused, router, start_with};

const BYTES: usize = 1 << 20;

#[idempotent(ttl = "24h", scope = headers["x-tenant"].as_bytes())]
async fn scoped(State(ledger): State<Ledger>, headers: HeaderMap) -> (StatusCode, Json<usize>) {
    let _ = headers;
    (StatusCode::CREATED, Json(ledger.number()))
}

fn with_tenants(app: App) -> Router {
    router(app.clone()).merge(Router::new().route("/tenant", post(scoped)).with_state(app))
}

async fn start() -> Test {
    start_with(|builder| builder.local_cache(BYTES), with_tenants).await
}

/// Another process before the same store: it shares nothing else.
async fn another(test: &Test) -> (Server, Idempotency) {
    let idempotency = Idempotency::builder(test.store.clone()).local_cache(BYTES).build();
    let app = App { ledger: test.ledger.clone(), idempotency: idempotency.clone() };
    (Server::start(with_tenants(app)).await, idempotency)
}

async fn send(server: &Server, path: &str) -> Answer {
    Answer::to(server.post(path, "k1")).await
}

#[tokio::test]
async fn a_replay_asks_no_store() {
    let test = start().await;
    let first = test.send("/pay").await;
    let calls = || [Verb::Claim, Verb::Complete, Verb::Get].map(|verb| test.store.calls(verb));
    assert_eq!(calls(), [1, 1, 0]);
    for _ in 0..3 {
        let replay = test.send("/pay").await;
        assert!(replay.is_replay());
        assert_eq!((replay.status, replay.text()), (first.status, first.text()));
    }
    assert_eq!(calls(), [1, 1, 0]);
    test.check(1, &["executed", "replayed", "replayed", "replayed"]);
}

#[tokio::test]
async fn it_answers_while_the_store_is_down() {
    let test = start().await;
    test.send("/pay").await;
    test.store.outage();
    assert!(test.send("/pay").await.is_replay());
}

/// What another process ran costs one look, and then nothing.
#[tokio::test]
async fn another_process_learns_at_its_first_replay() {
    let test = start().await;
    test.send("/pay").await;
    let (server, _) = another(&test).await;
    assert!(send(&server, "/pay").await.is_replay());
    test.answered(Verb::Get, 1).await;
    let calls = || [Verb::Claim, Verb::Get].map(|verb| test.store.calls(verb));
    assert_eq!(calls(), [2, 1]);
    assert!(send(&server, "/pay").await.is_replay());
    assert_eq!(calls(), [2, 1]);
}

#[tokio::test]
async fn another_request_and_another_caller_are_told_apart_inside() {
    let test = start().await;
    test.send("/pay").await;
    for other in [
        test.server.post("/pay", "k1").header("authorization", "Bearer mallory"),
        test.server.post("/pay?amount=2", "k1"),
        test.server.post("/pay", "k1").body("other"),
    ] {
        refused(&Answer::to(other).await, 422, "idempotency_key_reused", None);
    }
    assert_eq!(test.store.calls(Verb::Claim), 1);
    test.check(1, &["executed", "mismatch", "mismatch", "mismatch"]);
}

#[tokio::test]
async fn tenants_never_meet() {
    let test = start().await;
    let as_tenant = |name| Answer::to(test.server.post("/tenant", "k1").header("x-tenant", name));
    assert_eq!([as_tenant("a").await.text(), as_tenant("b").await.text()], ["1", "2"]);
    assert_eq!([as_tenant("a").await.text(), as_tenant("b").await.text()], ["1", "2"]);
    assert_eq!(test.store.calls(Verb::Claim), 2);
}

#[tokio::test]
async fn forgetting_is_seen_at_once() {
    let test = start().await;
    test.send("/pay").await;
    assert!(test.idempotency.forget("POST /pay", &Idempotency::NO_SCOPE, "k1").await.unwrap());
    assert_eq!(test.send("/pay").await.text(), "2");
    // Also when nobody can say whether it was done.
    test.store.next(Verb::Forget, Fault::LoseAnswer);
    assert!(test.idempotency.forget("POST /pay", &Idempotency::NO_SCOPE, "k1").await.is_err());
    assert_eq!(test.send("/pay").await.text(), "3");
    test.check(3, &["executed", "executed", "executed"]);
}

#[tokio::test]
async fn what_was_removed_by_hand_goes_with_the_cache() {
    let test = start().await;
    test.send("/pay").await;
    assert!(test.store.inner().forget(&test.id()).await.unwrap());
    assert!(test.send("/pay").await.is_replay(), "for a minute");
    test.idempotency.clear_local_cache();
    assert_eq!(test.send("/pay").await.text(), "2");
}

/// The completion has taken effect, is forgotten, and only then heard of.
#[tokio::test]
async fn a_completion_that_is_heard_of_late_is_not_kept() {
    let test = start().await;
    let gate = Gate::new();
    test.store.next(Verb::Complete, Fault::DelayAnswer(gate.clone()));
    let first = test.begin("/pay");
    test.ledger.begun(1).await;
    test.arrived(Verb::Complete, 1).await;
    assert!(test.idempotency.forget("POST /pay", &Idempotency::NO_SCOPE, "k1").await.unwrap());
    gate.open();
    assert_eq!(first.await.unwrap().text(), "1");
    assert_eq!(test.send("/pay").await.text(), "2");
}

/// The same for a look at what another process ran.
#[tokio::test]
async fn a_look_that_is_answered_late_is_not_kept() {
    let test = start().await;
    test.send("/pay").await;
    let (server, idempotency) = another(&test).await;
    let gate = Gate::new();
    test.store.next(Verb::Get, Fault::DelayAnswer(gate.clone()));
    assert!(send(&server, "/pay").await.is_replay());
    test.arrived(Verb::Get, 1).await;
    assert!(idempotency.forget("POST /pay", &Idempotency::NO_SCOPE, "k1").await.unwrap());
    gate.open();
    test.answered(Verb::Get, 1).await;
    assert_eq!(send(&server, "/pay").await.text(), "2");
}

/// Forgotten and run again elsewhere while the look was on its way: what runs counts.
#[tokio::test]
async fn a_late_look_never_hides_a_running_attempt() {
    let test = start().await;
    test.ledger.open();
    test.send("/slow").await;
    let (server, _) = another(&test).await;
    let gate = Gate::new();
    test.store.next(Verb::Get, Fault::DelayAnswer(gate.clone()));
    assert!(send(&server, "/slow").await.is_replay());
    test.arrived(Verb::Get, 1).await;
    assert!(test.idempotency.forget("POST /slow", &Idempotency::NO_SCOPE, "k1").await.unwrap());
    let running = test.begin("/slow");
    test.ledger.begun(2).await;
    assert_eq!(send(&server, "/slow").await.problem(), "idempotency_in_progress");
    gate.open();
    test.answered(Verb::Get, 1).await;
    assert_eq!(send(&server, "/slow").await.problem(), "idempotency_in_progress");
    test.ledger.open();
    assert_eq!(running.await.unwrap().text(), "2");
    assert_eq!(send(&server, "/slow").await.text(), "2");
}

/// What can't be read as an answer is asked for again, so that a repaired record is seen.
#[tokio::test]
async fn a_damaged_outcome_is_not_kept() {
    let test = start().await;
    test.send("/pay").await;
    let (server, _) = another(&test).await;
    test.store.next(Verb::Claim, Fault::Damage);
    refused(&send(&server, "/pay").await, 503, "idempotency_store_unavailable", Some("1"));
    test.answered(Verb::Get, 1).await;
    assert!(send(&server, "/pay").await.is_replay());
    assert_eq!(test.store.calls(Verb::Claim), 3);
    assert_eq!(test.stored().await, Some(Stored::Completed));
}

#[tokio::test]
async fn what_is_not_completed_is_not_kept() {
    let test = start().await;
    test.ledger.answer_with(&[503, 201]);
    assert_eq!(test.send("/pay").await.status, 503);
    assert_eq!(test.send("/pay").await.text(), "2");
    let test = start().await;
    test.ledger.answer_with(&[503]);
    assert_eq!(test.send("/hold").await.status, 503);
    for _ in 0..2 {
        assert_eq!(test.send("/hold").await.problem(), "idempotency_outcome_unknown");
    }
    assert_eq!(test.store.calls(Verb::Claim), 3);
}
