//! Bodies that are large, slow or broken.

use std::time::Duration;

use idem_runtime::Idempotency;
use idem_tests::server::Answer;

use crate::app::{Test, start};

async fn settled(test: &Test) {
    assert_eq!(test.idempotency.drain(Duration::from_secs(5)).await, 0);
}

fn assert_tombstone(answer: &Answer) {
    assert!(answer.is_replay());
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert_eq!(answer.headers["idempotent-body"], "not-kept");
}

/// P9: at the limit −1, 0, +1.
#[tokio::test]
async fn a_body_over_the_limit_leaves_a_tombstone_and_runs_once() {
    let test = start().await;
    for size in [0, 999, 1000] {
        let path = format!("/whole/{size}");
        assert_eq!(Answer::to(test.server.post(&path, "k1")).await.body.len(), size);
        test.idempotency.forget("POST /whole/{n}", &Idempotency::NO_SCOPE, "k1").await.unwrap();
        Answer::to(test.server.post(&path, "k1")).await;
        let replay = Answer::to(test.server.post(&path, "k1")).await;
        assert!(replay.is_replay() && replay.body.len() == size && !replay.headers.contains_key("idempotent-body"));
        test.idempotency.forget("POST /whole/{n}", &Idempotency::NO_SCOPE, "k1").await.unwrap();
    }
    let runs = test.ledger.runs();
    let first = Answer::to(test.server.post("/whole/1001", "k1")).await;
    assert_eq!(first.body.len(), 1001, "the first caller has it all");
    for _ in 0..2 {
        let replay = Answer::to(test.server.post("/whole/1001", "k1")).await;
        assert_tombstone(&replay);
        assert_eq!(replay.headers["content-type"], "x/y");
    }
    assert_eq!(test.ledger.runs(), runs + 1);
}

/// Each piece arrives before the next is made, and a copy of all is replayed.
#[tokio::test]
async fn a_stream_passes_at_once_and_is_kept() {
    let test = start().await;
    let mut first = test.server.post("/pieces/3/end", "k1").send().await.unwrap();
    let running = Answer::to(test.server.post("/pieces/3/end", "k1")).await;
    assert_eq!(running.problem(), "idempotency_in_progress", "until the stream has ended");
    let mut size = 0;
    for _ in 0..3 {
        test.ledger.open();
        size += first.chunk().await.unwrap().unwrap().len();
    }
    test.ledger.open();
    assert_eq!(first.chunk().await.unwrap(), None);
    assert_eq!(size, 300);
    // R11: the end is told once the record is there.
    let replay = Answer::to(test.server.post("/pieces/3/end", "k1")).await;
    assert!(replay.is_replay() && replay.body.len() == 300);
    assert_eq!(test.ledger.runs(), 1);
}

#[tokio::test]
async fn a_stream_over_the_limit_passes_whole_and_leaves_a_tombstone() {
    let test = start().await;
    let mut first = test.server.post("/pieces/12/end", "k1").send().await.unwrap();
    let mut size = 0;
    for _ in 0..12 {
        test.ledger.open();
        size += first.chunk().await.unwrap().unwrap().len();
    }
    test.ledger.open();
    assert_eq!((first.chunk().await.unwrap(), size), (None, 1200));
    assert_tombstone(&Answer::to(test.server.post("/pieces/12/end", "k1")).await);
}

/// The handler has answered 200: whatever then goes wrong with the body, it is not run again.
#[tokio::test]
async fn a_body_that_fails_half_way_leaves_a_tombstone() {
    let test = start().await;
    let mut first = test.server.post("/pieces/1/fail", "k1").send().await.unwrap();
    test.ledger.open();
    assert_eq!(first.chunk().await.unwrap().unwrap().len(), 100);
    test.ledger.open();
    assert!(first.chunk().await.is_err(), "the caller sees the cut");
    settled(&test).await;
    assert_tombstone(&Answer::to(test.server.post("/pieces/1/fail", "k1")).await);
    assert_eq!(test.ledger.runs(), 1);
}

#[tokio::test]
async fn an_endless_stream_goes_on_and_is_a_tombstone_after_one_lease() {
    let test = start().await;
    let mut first = test.server.post("/pieces/100000/never", "k1").send().await.unwrap();
    test.ledger.open();
    assert!(first.chunk().await.unwrap().is_some());
    settled(&test).await;
    assert_tombstone(&Answer::to(test.server.post("/pieces/100000/never", "k1")).await);
    test.ledger.open();
    assert!(first.chunk().await.unwrap().is_some(), "the first caller still gets what comes");
}

/// A client that leaves mid-body doesn't stop the copy.
#[tokio::test]
async fn a_stream_is_kept_whole_after_its_caller_left() {
    let test = start().await;
    let mut first = test.server.post("/pieces/3/end", "k1").send().await.unwrap();
    test.ledger.open();
    assert!(first.chunk().await.unwrap().is_some());
    drop(first);
    let drained = tokio::spawn({
        let idempotency = test.idempotency.clone();
        async move { idempotency.drain(Duration::from_secs(5)).await }
    });
    while !drained.is_finished() {
        test.ledger.open();
        tokio::task::yield_now().await;
    }
    assert_eq!(drained.await.unwrap(), 0);
    let replay = Answer::to(test.server.post("/pieces/3/end", "k1")).await;
    assert!(replay.is_replay());
    assert_eq!(replay.body.len(), 300);
}
