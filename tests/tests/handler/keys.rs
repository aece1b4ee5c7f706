//! The key: how it is spelled, and what is no key.

use idem_tests::server::Answer;
use serde_json::json;

use crate::app::start;

#[tokio::test]
async fn quoted_and_bare_are_one_key() {
    let test = start().await;
    for key in ["8e03978e-40d5", "\"8e03978e-40d5\"", "  \"8e03978e-40d5\"  ", "\"8e03978e-40d5\";v=1"] {
        let answer = Answer::to(test.server.post("/orders", key).json(&1)).await;
        assert_eq!(answer.status, 201, "{key}: {}", answer.text());
    }
    assert_eq!(test.ledger.runs(), 1);
}

#[tokio::test]
async fn what_is_no_key_is_refused_and_never_ignored() {
    let test = start().await;
    let long = "k".repeat(256);
    for key in ["", " ", "\"\"", &*long, "a b", "\"open", "'k'", "a,b", "k\u{fc}", "a\tb"] {
        for path in ["/orders", "/optional"] {
            let answer = Answer::to(test.server.post(path, key).json(&1)).await;
            assert_eq!((answer.status, answer.problem().as_str()), (400, "idempotency_key_invalid"), "{path} {key:?}");
        }
    }
    assert_eq!(test.ledger.runs(), 0);
    let answer = Answer::to(test.server.post("/orders", &long[1..]).json(&1)).await;
    assert_eq!(answer.status, 201, "255 bytes are a key");
}

#[tokio::test]
async fn a_repeated_header_is_refused() {
    let test = start().await;
    for second in ["k1", "k2"] {
        let request = test.server.post("/orders", "k1").header("idempotency-key", second).json(&1);
        assert_eq!(Answer::to(request).await.problem(), "idempotency_key_invalid");
    }
    assert_eq!(test.ledger.runs(), 0);
}

#[tokio::test]
async fn a_missing_key_says_what_to_send() {
    let test = start().await;
    let answer = Answer::to(test.server.keyless("/orders").json(&1)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (400, "idempotency_key_missing"));
    assert!(answer.text().contains("`Idempotency-Key`"), "{}", answer.text());
    let answer = Answer::to(test.server.post("/other-header", "k1")).await;
    assert!(answer.status == 400 && answer.text().contains("`X-Request-Id`"), "{}", answer.text());
}

/// The key is read before the body: nobody uploads for nothing.
#[tokio::test]
async fn a_missing_key_is_told_before_a_broken_body() {
    let test = start().await;
    let answer = Answer::to(test.server.keyless("/orders").header("content-type", "application/json").body("{")).await;
    assert_eq!(answer.problem(), "idempotency_key_missing");
}

/// F13: keyless requests never share a record.
#[tokio::test]
async fn without_a_key_an_optional_handler_runs_every_time() {
    let test = start().await;
    for run in ["1", "2"] {
        let answer = Answer::to(test.server.keyless("/optional")).await;
        assert!(answer.text() == run && !answer.is_replay());
    }
    Answer::to(test.server.post("/optional", "k1")).await;
    assert_eq!(Answer::to(test.server.post("/optional", "k1")).await.text(), "3");
}

#[tokio::test]
async fn the_header_can_have_another_name() {
    let test = start().await;
    for _ in 0..2 {
        let answer = Answer::to(test.server.keyless("/other-header").header("x-request-id", "k1")).await;
        assert_eq!(answer.text(), "1");
    }
}

#[tokio::test]
async fn the_key_can_come_from_the_body() {
    let test = start().await;
    let send = |event| Answer::to(test.server.keyless("/webhook").json(&event));
    assert_eq!(send(json!({"id": "evt_1"})).await.text(), "1");
    assert!(send(json!({"id": "evt_1"})).await.is_replay());
    assert_eq!(send(json!({"id": "evt_2"})).await.text(), "2");
    assert_eq!(send(json!({"kind": "ping"})).await.problem(), "idempotency_key_missing");
    assert_eq!(send(json!({"id": ""})).await.problem(), "idempotency_key_invalid");
}

/// F16: keys are compared as bytes.
#[tokio::test]
async fn keys_are_case_sensitive() {
    let test = start().await;
    for key in ["Ab", "ab", "\"ab \""] {
        Answer::to(test.server.post("/orders", key).json(&1)).await;
    }
    assert_eq!(test.ledger.runs(), 3);
}

/// S1, S5: one key on two routes is two operations, also through two nests of one router; a named operation is one.
#[tokio::test]
async fn a_key_belongs_to_its_operation() {
    let test = start().await;
    Answer::to(test.server.post("/orders", "k1").json(&1)).await;
    assert_eq!(Answer::to(test.server.post("/other", "k1").json(&1)).await.status, 201);
    assert_eq!(test.ledger.runs(), 2);
    Answer::to(test.server.post("/v1/orders/7", "k2")).await;
    let moved = Answer::to(test.server.post("/v2/orders/7", "k2")).await;
    assert_eq!(moved.problem(), "idempotency_key_reused");
    assert!(moved.text().contains("path or query"), "{}", moved.text());
    // A shared name is shared by methods too, and what was asked by one is no answer to another.
    let deleted = reqwest::Client::new().delete(test.server.url("/v1/orders/7")).header("idempotency-key", "k2");
    let deleted = Answer::to(deleted).await;
    assert_eq!(deleted.problem(), "idempotency_key_reused");
    assert!(deleted.text().contains("method"), "{}", deleted.text());
}

/// R13, T12: reading is no operation.
#[tokio::test]
async fn get_passes_through_unrecorded() {
    let test = start().await;
    for run in ["1", "2"] {
        let answer = Answer::to(test.server.get("/read").header("idempotency-key", "k1")).await;
        assert!(answer.text() == run && !answer.is_replay());
    }
    assert_eq!(Answer::to(test.server.get("/read")).await.text(), "3", "and needs no key");
    assert_eq!(Answer::to(test.server.post("/read", "k1")).await.text(), "4");
}

/// T11: a browser's preflight needs no key, and one that comes with it is left alone.
#[tokio::test]
async fn options_pass_through_unrecorded() {
    let test = start().await;
    let options = || reqwest::Client::new().request(reqwest::Method::OPTIONS, test.server.url("/read"));
    for run in ["1", "2"] {
        let answer = Answer::to(options().header("idempotency-key", "k1")).await;
        assert!(answer.text() == run && !answer.is_replay(), "{}", answer.text());
    }
    assert_eq!(Answer::to(options()).await.text(), "3", "and needs no key");
    assert_eq!(Answer::to(test.server.post("/read", "k1")).await.text(), "4", "and took none");
}

/// S9: what a client sends in our own response headers means nothing.
#[tokio::test]
async fn forged_markers_are_ignored() {
    let test = start().await;
    let answer = Answer::to(test.server.post("/orders", "k1").header("idempotent-replayed", "true").json(&1)).await;
    assert!(answer.status == 201 && !answer.is_replay());
}
