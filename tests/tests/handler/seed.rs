//! The four promises of an idempotent endpoint, and fifty callers at once.

use futures::future::join_all;
use idem_tests::server::Answer;
use serde_json::json;

use crate::app::start;

#[tokio::test]
async fn the_first_call_creates() {
    let test = start().await;
    let first = Answer::to(test.server.post("/orders", "k1").json(&json!({"amount": 1}))).await;
    assert_eq!(first.status, 201);
    assert!(!first.headers.contains_key("idempotent-replayed"));
    assert_eq!(test.ledger.runs(), 1);
}

#[tokio::test]
async fn the_second_call_is_byte_identical_and_does_nothing() {
    let test = start().await;
    let order = json!({"amount": 1, "note": "ü\u{0}\n"});
    let first = Answer::to(test.server.post("/orders", "k1").json(&order)).await;
    let second = Answer::to(test.server.post("/orders", "k1").json(&order)).await;
    assert_eq!((second.status, &second.body), (first.status, &first.body));
    assert_eq!(second.headers["content-type"], first.headers["content-type"]);
    assert!(second.is_replay());
    assert_eq!(test.ledger.runs(), 1);
}

#[tokio::test]
async fn another_body_is_refused_and_the_first_answer_stands() {
    let test = start().await;
    Answer::to(test.server.post("/orders", "k1").json(&json!({"amount": 1}))).await;
    let other = Answer::to(test.server.post("/orders", "k1").json(&json!({"amount": 2}))).await;
    assert_eq!((other.status, other.problem().as_str()), (422, "idempotency_key_reused"));
    assert!(other.text().contains("the body differs"), "{}", other.text());
    let again = Answer::to(test.server.post("/orders", "k1").json(&json!({"amount": 1}))).await;
    assert!(again.status == 201 && again.is_replay());
    assert_eq!(test.ledger.runs(), 1);
}

#[tokio::test]
async fn after_the_ttl_it_runs_again() {
    let test = start().await;
    let call = || Answer::to(test.server.post("/brief", "k1").json(&1));
    assert_eq!(call().await.text(), "1");
    assert_eq!(call().await.text(), "1");
    // The one thing to wait for is the ttl itself, and its end sends no event.
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    assert_eq!(call().await.text(), "2");
}

#[tokio::test]
async fn fifty_duplicates_at_once_run_once() {
    let test = start().await;
    let calls = (0..50).map(|_| Answer::to(test.server.post("/slow", "k1").json(&1)));
    let answers = join_all(calls).await;
    assert_eq!(test.ledger.runs(), 1);
    for answer in answers {
        match answer.status {
            200 => assert_eq!(answer.text(), "1"),
            409 => {
                assert_eq!(answer.problem(), "idempotency_in_progress");
                let seconds: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
                assert!((1..=30).contains(&seconds));
            }
            other => panic!("unexpected status {other}: {}", answer.text()),
        }
    }
}

#[tokio::test]
async fn fifty_duplicates_that_wait_get_the_one_answer() {
    let test = start().await;
    let first = tokio::spawn(test.server.post("/awaited", "k1").send());
    test.ledger.started().await;
    let waiting: Vec<_> = (0..50).map(|_| tokio::spawn(test.server.post("/awaited", "k1").send())).collect();
    test.ledger.open();
    assert_eq!(Answer::of(first.await.unwrap().unwrap()).await.text(), "1");
    for answer in waiting {
        let answer = Answer::of(answer.await.unwrap().unwrap()).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "1"));
    }
    assert_eq!(test.ledger.runs(), 1);
}

/// Two keys never wait for each other.
#[tokio::test]
async fn other_keys_go_on_while_one_runs() {
    let test = start().await;
    let first = tokio::spawn(test.server.post("/gated", "k1").send());
    test.ledger.started().await;
    assert_eq!(Answer::to(test.server.post("/orders", "k2").json(&1)).await.status, 201);
    test.ledger.open();
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
}
