//! The lease can't be renewed while the handler runs.

use std::time::{Duration, Instant};

use idem_runtime::{
    Idempotency,
    store::{Fault, Gate, State, Verb},
};

use crate::{
    app::{refused, start},
    routes::DOOR,
};

const LEASE: Duration = Duration::from_millis(900);

/// L8: a slow run keeps its lease for as long as the store renews it.
#[tokio::test]
async fn a_slow_run_is_nobody_elses() {
    for path in ["/slow", "/slow-hold"] {
        let test = start().await;
        let first = test.begin(path);
        test.answered(Verb::Renew, 5).await;
        refused(&test.send(path).await, 409, "idempotency_in_progress", Some("1"));
        test.ledger.open();
        assert_eq!(first.await.unwrap().status, 201);
        assert!(test.send(path).await.is_replay());
        assert_eq!(test.ledger.lost(), 0);
        test.check(1, &["in_progress", "executed", "replayed"]);
    }
}

/// L10: one renewal that fails is no loss yet, whether it took effect or not.
#[tokio::test]
async fn a_renewal_that_fails_once_is_repeated() {
    for fault in [Fault::Fail, Fault::LoseAnswer, Fault::Corrupt] {
        let test = start().await;
        test.store.next(Verb::Renew, fault);
        let first = test.begin("/slow");
        test.answered(Verb::Renew, 5).await;
        test.ledger.open();
        assert_eq!(first.await.unwrap().status, 201);
        assert_eq!((test.ledger.lost(), test.ledger.dropped()), (0, 0));
        test.check(1, &["executed"]);
        assert!(test.seen.tells_of("renew"));
    }
}

/// With `retry` the run is stopped before its lease is over, and only then may another start.
#[tokio::test]
async fn a_run_that_cannot_prove_its_lease_is_stopped() {
    for hangs in [false, true] {
        let test = start().await;
        let gate = Gate::new();
        test.store.every(Verb::Renew, if hangs { Fault::Delay(gate.clone()) } else { Fault::Fail });
        let began = Instant::now();
        refused(&test.send("/slow").await, 503, "idempotency_lease_lost", Some("1"));
        assert!(began.elapsed() >= LEASE * 5 / 6 - Duration::from_millis(50), "{:?}", began.elapsed());
        assert_eq!((test.ledger.dropped(), test.ledger.most()), (1, 1));
        test.ledger.told_lost().await;
        test.answered(Verb::Release, 1).await;
        test.store.heal();
        gate.open();
        test.ledger.open();
        let second = test.send("/slow").await;
        assert_eq!((second.status, second.text().as_str()), (201, "2"));
        assert_eq!(test.ledger.most(), 1, "never two at a time");
        test.check(2, &["lease_lost", "executed"]);
    }
}

/// In a whole outage nothing can be released: the next attempt waits for the lease and is a takeover.
#[tokio::test]
async fn a_takeover_waits_for_the_lease_and_never_overlaps() {
    let test = start().await;
    let first = test.begin("/slow");
    test.ledger.begun(1).await;
    test.store.every(Verb::Renew, Fault::Fail);
    test.store.every(Verb::Release, Fault::Fail);
    refused(&first.await.unwrap(), 503, "idempotency_lease_lost", Some("1"));
    assert_eq!(test.ledger.dropped(), 1);
    let left = test.record().await.unwrap().lease_left;
    if !left.is_zero() {
        refused(&test.send("/slow").await, 409, "idempotency_in_progress", Some("1"));
    }
    tokio::time::sleep(left).await;
    test.ledger.open();
    assert_eq!(test.send("/slow").await.text(), "2");
    assert_eq!((test.ledger.most(), test.record().await.unwrap().attempt), (1, 2));
    let outcomes = test.seen.outcomes();
    assert_eq!((outcomes.first().unwrap().as_str(), outcomes.last().unwrap().as_str()), ("lease_lost", "takeover"));
}

/// With `hold` it runs on, others are refused, and its outcome is stored.
#[tokio::test]
async fn a_run_that_holds_goes_on_without_its_lease() {
    let test = start().await;
    test.store.every(Verb::Renew, Fault::Fail);
    let first = test.begin("/slow-hold");
    test.ledger.told_lost().await;
    let left = test.record().await.unwrap().lease_left;
    if !left.is_zero() {
        refused(&test.send("/slow-hold").await, 409, "idempotency_in_progress", Some("1"));
    }
    tokio::time::sleep(left).await;
    refused(&test.send("/slow-hold").await, 409, "idempotency_outcome_unknown", None);
    test.ledger.open();
    assert_eq!(first.await.unwrap().status, 201);
    assert!(test.send("/slow-hold").await.is_replay());
    assert_eq!((test.ledger.dropped(), test.stored().await), (0, Some(State::Completed)));
    let outcomes = test.seen.outcomes();
    assert_eq!(outcomes[outcomes.len() - 3..], ["outcome_unknown", "executed", "replayed"]);
    assert_eq!(test.ledger.runs(), 1);
}

/// Ownership is the token's: a lapse that nobody used is healed by the next renewal.
#[tokio::test]
async fn a_lapse_nobody_used_changes_nothing() {
    for path in ["/slow", "/slow-hold"] {
        let test = start().await;
        let first = test.begin(path);
        test.ledger.begun(1).await;
        assert!(test.store.lapse(&test.id()).await.unwrap());
        assert_eq!(test.record().await.unwrap().lease_left, Duration::ZERO);
        test.answered(Verb::Renew, test.store.calls(Verb::Renew) + 1).await;
        assert_eq!(test.send(path).await.problem(), "idempotency_in_progress");
        test.ledger.open();
        assert_eq!(first.await.unwrap().status, 201);
        test.check(1, &["in_progress", "executed"]);
    }
}

/// L7, K05: a run that was taken over behind its back (a jump of the store's clock) learns of it at its next renewal,
/// and changes nothing of the new owner's record.
#[tokio::test]
async fn a_run_that_was_taken_over_settles_nothing() {
    let test = start().await;
    let first = test.begin("/slow");
    test.ledger.begun(1).await;
    assert!(test.store.lapse(&test.id()).await.unwrap());
    let second = test.begin("/slow");
    refused(&first.await.unwrap(), 503, "idempotency_lease_lost", Some("1"));
    test.answered(Verb::Release, 1).await;
    assert_eq!(test.stored().await, Some(State::InProgress), "the new owner's claim stands");
    test.ledger.open();
    let second = second.await.unwrap();
    assert_eq!((second.status, second.text().as_str()), (201, "2"));
    assert_eq!(test.send("/slow").await.text(), "2");
    test.check(2, &["lease_lost", "takeover", "replayed"]);
}

/// The same with `hold` after someone freed the key: the first answer goes to its caller, the record stays the second's.
#[tokio::test]
async fn a_held_run_whose_key_was_freed_settles_nothing() {
    let test = start().await;
    let first = test.begin("/slow-hold");
    test.ledger.begun(1).await;
    assert!(test.idempotency.forget(&format!("{DOOR}POST /slow-hold"), &Idempotency::NO_SCOPE, "k1").await.unwrap());
    let second = test.begin("/slow-hold");
    test.ledger.begun(2).await;
    test.ledger.told_lost().await;
    test.ledger.open();
    assert_eq!(first.await.unwrap().text(), "1");
    test.ledger.open();
    assert_eq!(second.await.unwrap().text(), "2");
    assert_eq!(test.send("/slow-hold").await.text(), "2");
    test.check(2, &["lease_lost", "executed", "replayed"]);
}
