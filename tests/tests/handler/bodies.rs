//! The body: handed on byte for byte, compared by meaning, and never half.

use idem_tests::server::Answer;
use reqwest::multipart::{Form, Part};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::app::{Test, start};

async fn send_json(test: &Test, key: &str, body: &str) -> Answer {
    Answer::to(test.server.post("/orders", key).header("content-type", "application/json").body(body.to_owned())).await
}

/// F1: members in another order, other white space and other escapes are the same JSON.
#[tokio::test]
async fn reordered_json_replays() {
    let test = start().await;
    for body in [r#"{"a":1,"b":{"x":"é","y":[2,10]}}"#, r#"{ "b": {"y": [2.0, 1e1], "x": "\u00e9"}, "a": 1 }"#] {
        assert_eq!(send_json(&test, "k1", body).await.status, 201);
    }
    assert_eq!(test.ledger.runs(), 1);
}

/// F8: a double can't tell these two apart; an amount must.
#[tokio::test]
async fn big_numbers_are_never_merged() {
    let test = start().await;
    assert_eq!(send_json(&test, "k1", "9007199254740993").await.status, 201);
    assert_eq!(send_json(&test, "k1", "9007199254740992").await.status, 422);
    assert_eq!(send_json(&test, "k2", "0.1").await.status, 201);
    assert_eq!(send_json(&test, "k2", "0.10").await.status, 201);
    assert_eq!(send_json(&test, "k3", r#""0.1""#).await.status, 201);
    assert_eq!(send_json(&test, "k3", r#""0.10""#).await.status, 422);
}

/// K23: a rejection is no outcome.
#[tokio::test]
async fn a_rejection_records_nothing() {
    let test = start().await;
    assert_eq!(send_json(&test, "k1", "{broken").await.status, 400);
    let wrong_type = Answer::to(test.server.post("/orders", "k1").body("1")).await;
    assert_eq!(wrong_type.status, 415);
    assert_eq!(send_json(&test, "k1", r#"{"fixed": true}"#).await.status, 201);
    assert_eq!(test.ledger.runs(), 1);
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_and_records_nothing() {
    let test = start().await;
    let large = "x".repeat(3 << 20);
    assert_eq!(Answer::to(test.server.post("/v1/orders/1", "k1").body(large)).await.status, 413);
    assert_eq!(Answer::to(test.server.post("/v1/orders/1", "k1").body("small")).await.text(), "1 1 5");
}

/// F18: nothing, an empty object and null are three bodies.
#[tokio::test]
async fn empty_bodies_differ() {
    let test = start().await;
    for (at, body) in ["{}", "null", "[]", "0"].into_iter().enumerate() {
        assert_eq!(send_json(&test, &format!("k{at}"), body).await.status, 201);
        let other = send_json(&test, &format!("k{at}"), "\"\"").await;
        assert_eq!(other.status, 422);
    }
}

/// F11: a form is its pairs.
#[tokio::test]
async fn reordered_forms_replay() {
    let test = start().await;
    let send = |body: &'static str| {
        let request = test.server.post("/form", "k1").header("content-type", "application/x-www-form-urlencoded");
        Answer::to(request.body(body))
    };
    assert_eq!(send("a=1&b=x%20y").await.text(), "1 2");
    assert!(send("b=x+y&a=1").await.is_replay());
    assert_eq!(send("b=x+y&a=2").await.status, 422);
}

/// K36: every retry has another boundary.
#[tokio::test]
async fn multipart_is_compared_by_part() {
    let test = start().await;
    let send = |text: &'static str| {
        let file = Part::bytes(vec![0, 1, 2]).file_name("a.bin");
        Answer::to(test.server.post("/upload", "k1").multipart(Form::new().text("note", text).part("file", file)))
    };
    assert_eq!(send("hello").await.text(), "1 8");
    assert!(send("hello").await.is_replay());
    assert_eq!(send("other").await.status, 422);
}

/// K35, H12, H14: path parameters and query are part of the request, whatever the order of the query.
#[tokio::test]
async fn path_and_query_count() {
    let test = start().await;
    assert_eq!(Answer::to(test.server.post("/v1/orders/1?a=1&b=2", "k1")).await.status, 200);
    assert!(Answer::to(test.server.post("/v1/orders/1?b=2&a=1", "k1")).await.is_replay());
    for path in ["/v1/orders/1?a=1&b=3", "/v1/orders/1", "/v1/orders/2?a=1&b=2"] {
        let answer = Answer::to(test.server.post(path, "k1")).await;
        assert!(answer.status == 422 && answer.text().contains("path or query"), "{path}: {}", answer.text());
    }
}

/// The body is compared before the state: a conflict is told while the first still runs (R42).
#[tokio::test]
async fn another_request_is_422_while_the_first_runs() {
    let test = start().await;
    let first = tokio::spawn(test.server.post("/gated", "k1").send());
    test.ledger.started().await;
    assert_eq!(Answer::to(test.server.post("/gated?other", "k1")).await.status, 422);
    assert_eq!(Answer::to(test.server.post("/gated", "k1")).await.status, 409);
    test.ledger.open();
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
}

/// K16: half an upload claims nothing, and the whole one runs.
#[tokio::test]
async fn a_truncated_upload_claims_nothing() {
    let test = start().await;
    let head = "POST /orders HTTP/1.1\r\nhost: x\r\nidempotency-key: k1\r\ncontent-type: application/json\r\n";
    let mut stream = test.server.send_raw(format!("{head}content-length: 10\r\n\r\n[1,")).await;
    stream.shutdown().await.unwrap();
    drop(stream);
    let mut chunked = test.server.send_raw(format!("{head}transfer-encoding: chunked\r\n\r\n1\r\n1\r\n")).await;
    chunked.shutdown().await.unwrap();
    drop(chunked);
    let whole = send_json(&test, "k1", "[1]").await;
    assert_eq!((whole.status, test.ledger.runs()), (201, 1));
    assert!(whole.text().contains(&json!([1]).to_string()));
}
