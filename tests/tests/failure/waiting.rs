//! Duplicates that wait.

use std::time::Duration;

use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use futures::{StreamExt as _, stream::FuturesUnordered};
use idem_runtime::store::{Fault, State, Verb};
use tower::ServiceExt as _;

use crate::app::{App, refused, router, start};

/// So many duplicates of one record wait on a process.
const PLACES: usize = 1024;

/// More duplicates than there are places: the excess is refused at once, the others get the outcome.
#[tokio::test]
async fn waiting_duplicates_are_bounded() {
    let test = start().await;
    let app = router(App { ledger: test.ledger.clone(), idempotency: test.idempotency.clone() });
    let send = || {
        let request = Request::post("/awaited").header("idempotency-key", "k1").body(Body::empty()).unwrap();
        app.clone().oneshot(request)
    };
    let first = tokio::spawn(send());
    test.ledger.begun(1).await;
    let mut answers: FuturesUnordered<_> = (0..PLACES + 6).map(|_| send()).collect();
    for _ in 0..6 {
        let refused = answers.next().await.unwrap().unwrap();
        assert_eq!(refused.status(), StatusCode::CONFLICT);
        assert!(refused.headers().contains_key("retry-after"));
    }
    test.ledger.open();
    while let Some(answer) = answers.next().await {
        let answer = answer.unwrap();
        assert_eq!(
            (answer.status(), &answer.headers()["idempotent-replayed"]),
            (StatusCode::CREATED, &"true".parse().unwrap())
        );
    }
    assert_eq!(first.await.unwrap().unwrap().status(), StatusCode::CREATED);
    let outcomes = test.seen.outcomes();
    let count = |name| outcomes.iter().filter(|outcome| *outcome == name).count();
    assert_eq!((count("executed"), count("waited"), count("in_progress")), (1, PLACES, 6));
    assert_eq!((test.ledger.runs(), outcomes.len()), (1, PLACES + 7));
}

/// A duplicate that waits through a fault of the store is refused as any other.
#[tokio::test]
async fn a_waiting_duplicate_meets_an_outage() {
    let test = start().await;
    let first = test.begin("/awaited");
    test.ledger.begun(1).await;
    let waiting = test.begin("/awaited");
    test.answered(Verb::Claim, 2).await;
    test.store.every(Verb::Claim, Fault::Fail);
    refused(&waiting.await.unwrap(), 503, "idempotency_store_unavailable", Some("1"));
    test.store.heal();
    test.ledger.open();
    assert_eq!(first.await.unwrap().status, 201);
    test.check(1, &["store_error", "executed"]);
}

/// The run it waited for is released: it becomes the owner.
#[tokio::test]
async fn a_waiting_duplicate_runs_after_a_release() {
    let test = start().await;
    test.ledger.answer_with(&[503]);
    let first = test.begin("/awaited");
    test.ledger.begun(1).await;
    let waiting = test.begin("/awaited");
    test.answered(Verb::Claim, 3).await;
    test.ledger.open();
    assert_eq!(first.await.unwrap().status, 503);
    test.ledger.open();
    assert_eq!(waiting.await.unwrap().text(), "2");
    assert_eq!((test.ledger.most(), test.stored().await), (1, Some(State::Completed)));
    test.check(2, &["released", "executed"]);
}

/// The same when the release lands late, in the background.
#[tokio::test]
async fn a_waiting_duplicate_is_woken_by_a_late_completion() {
    let test = start().await;
    test.store.every(Verb::Complete, Fault::Fail);
    let first = test.begin("/awaited");
    test.ledger.begun(1).await;
    let waiting = test.begin("/awaited");
    test.answered(Verb::Claim, 3).await;
    test.ledger.open();
    assert_eq!(first.await.unwrap().status, 201);
    tokio::time::timeout(Duration::from_millis(50), test.answered(Verb::Complete, 2)).await.ok();
    test.store.heal();
    assert!(waiting.await.unwrap().is_replay());
    test.check(1, &["completion_late", "waited"]);
}
