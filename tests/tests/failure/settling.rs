//! The store fails when an attempt ends.

use std::time::Duration;

use idem_runtime::store::{Fault, Gate, State, Verb};

use crate::app::{Test, refused, router, start, start_with};

/// Sends a request whose caller must have the handler's own answer.
async fn answered(test: &Test, path: &str, status: u16) {
    let answer = test.send(path).await;
    assert_eq!((answer.status, answer.text().as_str(), answer.is_replay()), (status, "1", false));
}

/// L15, K51: the caller learns what happened, and the outcome is stored as soon as the store takes it.
#[tokio::test]
async fn a_failed_completion_lands_later() {
    for path in ["/pay", "/hold", "/run"] {
        let test = start().await;
        test.store.every(Verb::Complete, Fault::Fail);
        answered(&test, path, 201).await;
        assert_eq!(test.stored().await, Some(State::InProgress), "the claim is kept");
        assert!(test.send(path).await.is_replay(), "this process knows the outcome");
        assert_eq!(test.idempotency.drain(Duration::from_millis(10)).await, 1, "drain knows of it");
        test.store.heal();
        test.drained().await;
        assert_eq!(test.stored().await, Some(State::Completed));
        assert!(test.send(path).await.is_replay());
        test.check(1, &["completion_late", "replayed", "replayed"]);
        assert!(test.seen.tells_of("settle"));
    }
}

/// A store that refuses the outcome for longer than the lease may still grant the lease: nobody runs what has run.
#[tokio::test]
async fn the_lease_is_kept_while_the_outcome_is_not_taken() {
    for path in ["/slow", "/slow-hold"] {
        let test = start().await;
        test.store.every(Verb::Complete, Fault::Fail);
        test.ledger.open();
        answered(&test, path, 201).await;
        // Twice the lease.
        tokio::time::sleep(Duration::from_millis(1800)).await;
        assert!(!test.record().await.unwrap().lease_left.is_zero(), "other processes are kept away");
        test.store.heal();
        test.drained().await;
        assert!(test.send(path).await.is_replay());
        test.check(1, &["completion_late", "replayed"]);
    }
}

/// The same while one call hangs: the lease is renewed before anything is repeated.
#[tokio::test]
async fn the_lease_is_kept_while_a_completion_hangs() {
    let test = start_with(|builder| builder.store_timeout(Duration::from_secs(10)), router).await;
    let gate = Gate::new();
    test.store.next(Verb::Complete, Fault::Delay(gate.clone()));
    test.ledger.open();
    let answer = test.begin("/slow");
    test.arrived(Verb::Complete, 1).await;
    // Twice the lease.
    tokio::time::sleep(Duration::from_millis(1800)).await;
    assert!(!test.record().await.unwrap().lease_left.is_zero(), "other processes are kept away");
    assert!(test.send("/slow").await.is_replay(), "this process knows the outcome");
    gate.open();
    assert_eq!(answer.await.unwrap().status, 201);
    test.check(1, &["replayed", "executed"]);
}

/// A store that is stalled for longer than the lease: the run has ended, so this process never runs it again.
#[tokio::test]
async fn an_outcome_at_hand_is_replayed_after_its_lease_has_lapsed() {
    let test = start().await;
    for verb in [Verb::Complete, Verb::Renew] {
        test.store.every(verb, Fault::Fail);
    }
    test.ledger.open();
    answered(&test, "/slow", 201).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert!(test.record().await.unwrap().lease_left.is_zero());
    assert!(test.send("/slow").await.is_replay());
    assert_eq!(test.send("/slow?other").await.problem(), "idempotency_key_reused");
    test.store.heal();
    test.drained().await;
    assert_eq!(test.stored().await, Some(State::Completed));
    test.check(1, &["completion_late", "replayed", "mismatch"]);
}

/// The same where the store held a duplicate's claim back and grants it before it takes the outcome.
#[tokio::test]
async fn a_claim_that_overtakes_a_completion_carries_its_outcome() {
    let test = start().await;
    let gate = Gate::new();
    test.store.nth(Verb::Claim, 2, Fault::Delay(gate.clone()));
    for verb in [Verb::Complete, Verb::Renew] {
        test.store.every(verb, Fault::Fail);
    }
    let first = test.begin("/slow");
    test.answered(Verb::Claim, 1).await;
    let duplicate = test.begin("/slow");
    test.arrived(Verb::Claim, 2).await;
    test.ledger.open();
    assert_eq!(first.await.unwrap().status, 201);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    gate.open();
    assert!(duplicate.await.unwrap().is_replay());
    test.store.heal();
    test.drained().await;
    assert_eq!(test.stored().await, Some(State::Completed));
    assert_eq!(test.record().await.unwrap().attempt, 2);
    test.check(1, &["completion_late", "replayed"]);
}

/// A completion that hangs holds its caller for the store timeout only.
#[tokio::test]
async fn a_completion_that_hangs_is_late() {
    let test = start_with(|builder| builder.store_timeout(Duration::from_millis(300)), router).await;
    let gate = Gate::new();
    test.store.every(Verb::Complete, Fault::Delay(gate.clone()));
    answered(&test, "/pay", 201).await;
    assert_eq!(test.stored().await, Some(State::InProgress));
    gate.open();
    test.drained().await;
    assert!(test.send("/pay").await.is_replay());
    test.check(1, &["completion_late", "replayed"]);
}

/// A completion is known by its token: repeated after a lost answer, it is the same one.
#[tokio::test]
async fn a_completion_whose_answer_is_lost_is_stored_once() {
    for path in ["/pay", "/hold"] {
        let test = start().await;
        test.store.next(Verb::Complete, Fault::LoseAnswer);
        answered(&test, path, 201).await;
        assert_eq!(test.stored().await, Some(State::Completed));
        assert!(test.send(path).await.is_replay());
        test.drained().await;
        assert_eq!(test.store.calls(Verb::Complete), 2);
        test.check(1, &["completion_late", "replayed"]);
    }
}

/// The record can't be read any more: its caller has the answer, and nobody runs again.
#[tokio::test]
async fn a_completion_onto_a_corrupt_record_is_not_repeated() {
    let test = start().await;
    test.store.every(Verb::Complete, Fault::Corrupt);
    answered(&test, "/pay", 201).await;
    test.drained().await;
    assert_eq!(test.store.calls(Verb::Complete), 1);
    assert_eq!(test.send("/pay").await.problem(), "idempotency_in_progress");
    test.check(1, &["completion_late", "in_progress"]);
}

/// A record that expired or was lost during the run takes the outcome all the same.
#[tokio::test]
async fn a_completion_onto_a_vanished_record_is_stored() {
    for path in ["/slow", "/slow-hold"] {
        let test = start().await;
        let gate = Gate::new();
        // The run mustn't notice before it completes.
        test.store.every(Verb::Renew, Fault::Delay(gate.clone()));
        let answer = test.begin(path);
        test.ledger.begun(1).await;
        assert!(test.store.expire(&test.id()).await.unwrap());
        test.ledger.open();
        assert_eq!(answer.await.unwrap().status, 201);
        gate.open();
        assert!(test.send(path).await.is_replay());
        test.check(1, &["executed", "replayed"]);
    }
}

/// A release that fails, or whose answer is lost, is repeated: the retry need not wait for the lease.
#[tokio::test]
async fn a_failed_release_lands_later() {
    for (path, fault) in [("/pay", Fault::Fail), ("/pay", Fault::LoseAnswer), ("/hold", Fault::Fail)] {
        let test = start().await;
        test.ledger.answer_with(&[429]);
        test.store.next(Verb::Release, fault);
        answered(&test, path, 429).await;
        test.drained().await;
        assert_eq!((test.stored().await, test.store.calls(Verb::Release)), (None, 2));
        assert_eq!(test.send(path).await.text(), "2");
        test.check(2, &["completion_late", "executed"]);
    }
}

/// Until it lands, nobody else gets in.
#[tokio::test]
async fn a_release_that_never_lands_lapses_with_the_lease() {
    let test = start().await;
    test.ledger.answer_with(&[503]);
    test.store.every(Verb::Release, Fault::Fail);
    test.ledger.open();
    answered(&test, "/slow", 503).await;
    let left = test.record().await.unwrap().lease_left;
    assert_eq!(test.send("/slow").await.problem(), "idempotency_in_progress");
    tokio::time::sleep(left).await;
    test.ledger.open();
    assert_eq!(test.send("/slow").await.text(), "2");
    assert_eq!(test.record().await.unwrap().attempt, 2);
    test.check(2, &["completion_late", "in_progress", "takeover"]);
}

/// A 5xx of a handler that holds is held, sooner or later; in between its lease keeps others away.
#[tokio::test]
async fn a_failed_hold_lands_later() {
    for fault in [Fault::Fail, Fault::LoseAnswer] {
        let test = start().await;
        test.ledger.answer_with(&[502]);
        test.store.next(Verb::Hold, fault);
        answered(&test, "/hold", 502).await;
        test.drained().await;
        assert_eq!((test.stored().await, test.store.calls(Verb::Hold)), (Some(State::Unknown), 2));
        refused(&test.send("/hold").await, 409, "idempotency_outcome_unknown", None);
        test.check(1, &["completion_late", "outcome_unknown"]);
    }
}

/// Without faults, what the record, the caller and the operators see of each end.
#[tokio::test]
async fn each_end_is_reported_once() {
    let test = start().await;
    for (path, status, stored, outcome) in [
        ("/pay", 201, Some(State::Completed), "executed"),
        ("/pay", 404, Some(State::Completed), "executed"),
        ("/pay", 500, None, "released"),
        ("/hold", 429, None, "released"),
        ("/hold", 500, Some(State::Unknown), "outcome_unknown"),
    ] {
        let before = test.seen.outcomes().len();
        test.ledger.answer_with(&[status]);
        assert_eq!(test.send(path).await.status, status);
        assert_eq!(test.stored().await, stored, "{path} {status}");
        assert_eq!(test.seen.outcomes()[before..], [outcome], "{path} {status}");
        test.store.expire(&test.id()).await.unwrap();
    }
}
