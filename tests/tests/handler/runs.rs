//! A run once begun ends, whoever has gone.

use std::time::Duration;

use axum::{error_handling::HandleErrorLayer, http::StatusCode};
use idem_runtime::{Idempotency, store::MemoryStore};
use idem_tests::server::Answer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::{BoxError, ServiceBuilder, timeout::TimeoutLayer};

use crate::app::{Test, start, start_with};

const GATED: &str = "POST /gated HTTP/1.1\r\nhost: x\r\nidempotency-key: k1\r\ncontent-length: 0\r\n\r\n";

/// Lets the gated run end, waits for it, and checks that the retry replays it.
async fn ends_once_and_replays(test: &Test) {
    test.ledger.open();
    assert_eq!(test.idempotency.drain(Duration::from_secs(5)).await, 0);
    assert_eq!((test.ledger.runs(), test.ledger.ended()), (1, 1));
    let retry = Answer::to(test.server.post("/gated", "k1")).await;
    assert!(retry.is_replay() && retry.text() == "1", "{}", retry.text());
    assert_eq!(test.ledger.runs(), 1);
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_stop_it() {
    let test = start().await;
    let stream = test.server.send_raw(GATED).await;
    test.ledger.started().await;
    // A reset, not a goodbye.
    stream.set_zero_linger().unwrap();
    drop(stream);
    ends_once_and_replays(&test).await;
}

#[tokio::test]
async fn a_client_that_half_closes_does_not_stop_it() {
    let test = start().await;
    let mut stream = test.server.send_raw(GATED).await;
    test.ledger.started().await;
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    // The server sees the half-close as the end of the connection: the answer is lost, the run is not.
    let reading = tokio::spawn(async move { stream.read_to_end(&mut rest).await });
    ends_once_and_replays(&test).await;
    let _ = reading.await;
}

#[tokio::test]
async fn a_timeout_outside_does_not_stop_it() {
    let test = start_with(Idempotency::new(MemoryStore::new()), |router| {
        let cut = ServiceBuilder::new()
            .layer(HandleErrorLayer::new(|_: BoxError| async { StatusCode::REQUEST_TIMEOUT }))
            .layer(TimeoutLayer::new(Duration::from_millis(100)));
        router.layer(cut)
    })
    .await;
    assert_eq!(Answer::to(test.server.post("/gated", "k1")).await.status, 408);
    ends_once_and_replays(&test).await;
}

/// K17: gone between the run and the answer.
#[tokio::test]
async fn a_retry_on_a_new_connection_gets_the_answer_the_first_missed() {
    let test = start().await;
    let stream = test.server.send_raw(GATED).await;
    test.ledger.started().await;
    test.ledger.open();
    assert_eq!(test.idempotency.drain(Duration::from_secs(5)).await, 0);
    drop(stream);
    assert!(Answer::to(test.server.post("/gated", "k1")).await.is_replay());
}

/// As a handler without the attribute: the connection closes without an answer.
#[tokio::test]
async fn a_panic_closes_the_connection_and_frees_the_key() {
    let test = start().await;
    let request = "POST /panics HTTP/1.1\r\nhost: x\r\nidempotency-key: k1\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(test.server.raw(request).await, b"");
    let retry = Answer::to(test.server.post("/panics", "k1")).await;
    assert_eq!((retry.status, retry.text().as_str(), retry.is_replay()), (200, "2", false));
    assert!(Answer::to(test.server.post("/panics", "k1")).await.is_replay());
}

/// L4, K18: the server lives on, and a layer that catches panics sees the handler's own.
#[tokio::test]
async fn a_panic_reaches_a_layer_that_catches_it() {
    let test = start_with(Idempotency::new(MemoryStore::new()), |router| {
        router.layer(tower_http::catch_panic::CatchPanicLayer::custom(|payload: Box<dyn std::any::Any + Send>| {
            let text = payload.downcast_ref::<&str>().copied().unwrap_or("another payload");
            axum::response::IntoResponse::into_response((StatusCode::INTERNAL_SERVER_ERROR, text.to_owned()))
        }))
    })
    .await;
    let answer = Answer::to(test.server.post("/panics", "k1")).await;
    assert_eq!((answer.status, answer.text().as_str()), (500, "the first run panics"));
    assert_eq!(Answer::to(test.server.post("/panics", "k1")).await.text(), "2");
}

#[tokio::test]
async fn drain_waits_for_running_handlers_and_says_how_many_are_left() {
    let test = start().await;
    let first = tokio::spawn(test.server.post("/gated", "k1").send());
    test.ledger.started().await;
    assert_eq!(test.idempotency.drain(Duration::from_millis(50)).await, 1);
    test.ledger.open();
    assert_eq!(test.idempotency.drain(Duration::from_secs(5)).await, 0);
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
}

/// A duplicate that waits and leaves stops waiting; the run goes on.
#[tokio::test]
async fn a_waiting_duplicate_that_hangs_up_changes_nothing() {
    let test = start().await;
    let first = tokio::spawn(test.server.post("/awaited", "k1").send());
    test.ledger.started().await;
    let mut waiting = test
        .server
        .send_raw("POST /awaited HTTP/1.1\r\nhost: x\r\nidempotency-key: k1\r\ncontent-length: 0\r\n\r\n")
        .await;
    waiting.flush().await.unwrap();
    drop(waiting);
    test.ledger.open();
    assert_eq!(Answer::of(first.await.unwrap().unwrap()).await.text(), "1");
    assert!(Answer::to(test.server.post("/awaited", "k1")).await.is_replay());
    assert_eq!(test.ledger.runs(), 1);
}

/// The fencing token grows with every run of a key, also after a release.
#[tokio::test]
async fn an_attempt_knows_its_names() {
    let test = start().await;
    let first: serde_json::Value =
        serde_json::from_slice(&Answer::to(test.server.post("/attempt", "k1")).await.body).unwrap();
    assert_eq!(first["number"], 1);
    test.idempotency.forget("POST /attempt", &Idempotency::NO_SCOPE, "k1").await.unwrap();
    let second: serde_json::Value =
        serde_json::from_slice(&Answer::to(test.server.post("/attempt", "k1")).await.body).unwrap();
    assert!(second["epoch"].as_u64().unwrap() > first["epoch"].as_u64().unwrap());
    assert_ne!(second["token"], first["token"]);
}
