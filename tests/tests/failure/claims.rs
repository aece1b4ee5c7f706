//! The store fails at the claim.

use std::time::{Duration, Instant};

use idem_runtime::store::{Fault, Gate, State, Verb};

use crate::app::{refused, router, start, start_with};

const UNAVAILABLE: &str = "idempotency_store_unavailable";

/// K51: nothing runs that can't be made safe.
#[tokio::test]
async fn a_claim_that_fails_refuses_and_runs_nothing() {
    let test = start().await;
    for path in ["/pay", "/hold", "/optional"] {
        test.store.every(Verb::Claim, Fault::Fail);
        refused(&test.send(path).await, 503, UNAVAILABLE, Some("1"));
        assert_eq!(test.stored().await, None);
        test.store.heal();
        assert_eq!(test.send(path).await.status, 201, "the key is free");
    }
    test.check(3, &["store_error", "executed", "store_error", "executed", "store_error", "executed"]);
    assert!(test.seen.tells_of("claim"));
}

/// One failed call is not yet an outage.
#[tokio::test]
async fn a_claim_that_fails_once_is_repeated() {
    let test = start().await;
    test.store.next(Verb::Claim, Fault::Fail);
    assert_eq!(test.send("/pay").await.status, 201);
    assert_eq!(test.store.calls(Verb::Claim), 2);
    test.check(1, &["executed"]);
}

/// R3: a claim whose answer is lost recognises itself.
#[tokio::test]
async fn a_claim_whose_answer_is_lost_is_no_rival() {
    for path in ["/pay", "/hold"] {
        let test = start().await;
        test.store.next(Verb::Claim, Fault::LoseAnswer);
        assert_eq!(test.send(path).await.status, 201);
        assert_eq!(test.stored().await, Some(State::Completed));
        assert!(test.send(path).await.is_replay());
        test.check(1, &["executed", "replayed"]);
    }
}

/// A claim that was made unheard doesn't keep the key for its lease: with `hold` it would keep it for good.
#[tokio::test]
async fn a_claim_made_unheard_is_released() {
    for path in ["/pay", "/hold"] {
        let test = start().await;
        test.store.every(Verb::Claim, Fault::LoseAnswer);
        refused(&test.send(path).await, 503, UNAVAILABLE, Some("1"));
        test.answered(Verb::Release, 1).await;
        assert_eq!(test.stored().await, None);
        test.store.heal();
        assert_eq!(test.send(path).await.status, 201);
        test.check(1, &["store_error", "executed"]);
    }
}

/// The release is repeated through an outage, with `hold` for longer than the lease.
#[tokio::test]
async fn a_claim_made_unheard_is_released_after_an_outage() {
    let test = start().await;
    test.store.every(Verb::Claim, Fault::LoseAnswer);
    test.store.every(Verb::Release, Fault::Fail);
    refused(&test.send("/slow-hold").await, 503, UNAVAILABLE, Some("1"));
    let lapses = test.record().await.unwrap().lease_left + Duration::from_secs(1);
    tokio::time::sleep(lapses).await;
    test.store.heal();
    let seen = test.store.calls(Verb::Release);
    test.answered(Verb::Release, seen + 1).await;
    assert_eq!(test.stored().await, None);
    test.ledger.open();
    assert_eq!(test.send("/slow-hold").await.status, 201);
    test.check(1, &["store_error", "executed"]);
}

/// A store that hangs costs a caller the store timeout, and the late claim is undone.
#[tokio::test]
async fn a_claim_that_hangs_is_given_up_and_released_when_it_lands() {
    for path in ["/pay", "/hold"] {
        let test = start_with(|builder| builder.store_timeout(Duration::from_millis(300)), router).await;
        let gate = Gate::new();
        test.store.next(Verb::Claim, Fault::Delay(gate.clone()));
        let began = Instant::now();
        refused(&test.send(path).await, 503, UNAVAILABLE, Some("1"));
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(3), "{took:?}");
        assert_eq!(test.store.calls(Verb::Release), 0, "nothing is there to be released yet");
        gate.open();
        test.answered(Verb::Release, 1).await;
        assert_eq!(test.stored().await, None);
        assert_eq!(test.send(path).await.status, 201);
        test.check(1, &["store_error", "executed"]);
    }
}

/// The lease counts from before the claim was sent: an answer that comes after its end starts nothing.
#[tokio::test]
async fn a_claim_answered_after_its_lease_starts_nothing() {
    for path in ["/slow", "/slow-hold"] {
        let test = start().await;
        let gate = Gate::new();
        test.store.next(Verb::Claim, Fault::DelayAnswer(gate.clone()));
        let answer = test.begin(path);
        test.arrived(Verb::Claim, 1).await;
        tokio::time::sleep(Duration::from_millis(900)).await;
        gate.open();
        refused(&answer.await.unwrap(), 503, "idempotency_lease_lost", Some("1"));
        test.answered(Verb::Release, 1).await;
        assert_eq!(test.stored().await, None);
        test.check(0, &["lease_lost"]);
    }
}

/// A record that can't be read may be a completed one.
#[tokio::test]
async fn a_corrupt_record_never_leads_to_a_run() {
    for path in ["/pay", "/hold", "/run"] {
        let test = start().await;
        test.store.every(Verb::Claim, Fault::Corrupt);
        refused(&test.send(path).await, 503, UNAVAILABLE, Some("1"));
        assert_eq!(test.store.calls(Verb::Claim), 1, "repeating doesn't help");
        assert_eq!(test.store.calls(Verb::Release), 0, "nothing was claimed");
        test.check(0, &["store_error"]);
    }
}

/// The claim took effect unheard, and then the record can't be read: it is released all the same.
#[tokio::test]
async fn a_corrupt_answer_after_a_lost_one_releases_the_claim() {
    let test = start().await;
    test.store.nth(Verb::Claim, 1, Fault::LoseAnswer);
    test.store.nth(Verb::Claim, 2, Fault::Corrupt);
    refused(&test.send("/pay").await, 503, UNAVAILABLE, Some("1"));
    test.answered(Verb::Release, 1).await;
    assert_eq!(test.stored().await, None);
    test.check(0, &["store_error"]);
}

/// An outcome that can't be read is no licence to run again, whatever the policy for outages.
#[tokio::test]
async fn a_damaged_outcome_never_leads_to_a_run() {
    for path in ["/pay", "/hold", "/run"] {
        let test = start().await;
        let first = test.send(path).await;
        test.store.next(Verb::Claim, Fault::Damage);
        refused(&test.send(path).await, 503, UNAVAILABLE, Some("1"));
        assert_eq!(test.stored().await, Some(State::Completed));
        let replay = test.send(path).await;
        assert!(replay.is_replay() && replay.body == first.body);
        test.check(1, &["executed", "store_error", "replayed"]);
        assert!(test.seen.tells_of("replay"));
    }
}

/// `outage = run`: unprotected, and it says so.
#[tokio::test]
async fn an_outage_runs_unprotected_where_that_was_asked_for() {
    let test = start().await;
    test.store.outage();
    for run in ["1", "2"] {
        let answer = test.send("/run").await;
        assert_eq!((answer.status, answer.text().as_str()), (201, run));
    }
    assert_eq!(test.stored().await, None);
    test.check(2, &["unprotected", "unprotected"]);
    test.store.heal();
    assert_eq!(test.send("/run").await.text(), "3");
    assert!(test.send("/run").await.is_replay());
    test.check(3, &["unprotected", "unprotected", "executed", "replayed"]);
}

/// `outage = run` is no licence for one that knows of another run.
#[tokio::test]
async fn a_duplicate_that_has_waited_does_not_run_in_an_outage() {
    let test = start().await;
    let first = test.begin("/awaited-run");
    test.ledger.begun(1).await;
    let claims = test.store.calls(Verb::Claim);
    let second = test.begin("/awaited-run");
    // It has seen that somebody runs, and looks again.
    test.answered(Verb::Claim, claims + 1).await;
    test.store.outage();
    refused(&second.await.unwrap(), 503, UNAVAILABLE, Some("1"));
    test.store.heal();
    test.ledger.open();
    assert_eq!(first.await.unwrap().status, 201);
    test.check(1, &["store_error", "executed"]);
}

/// `outage = run` when the claim was made unheard: the key is free again for the next.
#[tokio::test]
async fn an_unprotected_run_leaves_no_claim() {
    let test = start().await;
    test.store.every(Verb::Claim, Fault::LoseAnswer);
    assert_eq!(test.send("/run").await.status, 201);
    test.answered(Verb::Release, 1).await;
    assert_eq!(test.stored().await, None);
    test.check(1, &["unprotected"]);
}
