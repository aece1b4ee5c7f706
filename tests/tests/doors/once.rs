//! Consumers: the same faults, races and hang-ups, without HTTP.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, future::join_all};
use idem_runtime::{
    Attempt, Idempotency, Once, OnceError, OnceRun,
    policy::Unknown,
    store::{Fault, FaultStore, MemoryStore, State, Store as _, StoreError, Verb},
};
use tokio::runtime::Runtime;

use crate::{
    app::{Ledger, Test, held_up, soon, start},
    seen::Seen,
};

type Seen1 = Result<Once<usize>, OnceError<String>>;

fn message(test: &Test) -> OnceRun {
    test.idempotency.once("orders.created", "m1").lease("900ms")
}

async fn now(test: &Test) -> Seen1 {
    let ledger = test.ledger.clone();
    message(test).run(async move || Ok(ledger.number())).await
}

/// A run that ends when the ledger opens.
async fn slowly(once: OnceRun, ledger: Ledger) -> Seen1 {
    once.run_with(async move |attempt: Attempt| {
        held_up(ledger.clone(), attempt).await;
        Ok(ledger.runs())
    })
    .await
}

fn retry_after(seen: Seen1) -> Duration {
    match seen {
        Ok(Once::InProgress { retry_after }) => retry_after,
        other => panic!("not in progress: {other:?}"),
    }
}

#[tokio::test]
async fn a_second_delivery_gets_the_first_value() {
    let test = start().await;
    assert_eq!(now(&test).await.unwrap(), Once::First(1));
    assert_eq!(now(&test).await.unwrap(), Once::Replayed(1));
    let other = test.idempotency.once("orders.created", ("tenant", 2)).run(async || Ok::<_, ()>(7)).await;
    assert_eq!(other.unwrap(), Once::First(7));
    assert_eq!(test.stored().await, Some(State::Completed));
    assert!(test.idempotency.forget("once orders.created", &Idempotency::NO_SCOPE, "m1").await.unwrap());
    assert_eq!(now(&test).await.unwrap(), Once::First(2));
    test.check(2, &["executed", "replayed", "executed", "executed"]);
    assert!(test.seen.events().iter().all(|event| event["operation"] == "once orders.created"));
}

#[tokio::test]
async fn concurrent_deliveries_have_one_effect() {
    let test = start().await;
    let first = tokio::spawn(slowly(message(&test), test.ledger.clone()));
    test.ledger.begun(1).await;
    for duplicate in join_all((0..16).map(|_| now(&test))).await {
        let left = retry_after(duplicate);
        assert!(left > Duration::ZERO && left <= Duration::from_millis(900), "{left:?}");
    }
    let waiting = tokio::spawn(slowly(message(&test).wait("20s"), test.ledger.clone()));
    test.answered(Verb::Claim, 19).await;
    test.ledger.open();
    assert_eq!(first.await.unwrap().unwrap(), Once::First(1));
    assert_eq!(waiting.await.unwrap().unwrap(), Once::Replayed(1));
    assert_eq!((test.ledger.runs(), test.ledger.most()), (1, 1));
}

/// A message whose handler failed is never marked as seen, whatever `unknown` says.
#[tokio::test]
async fn a_failed_message_is_not_seen() {
    let test = start().await;
    for unknown in [Unknown::Retry, Unknown::Hold] {
        let failing = message(&test).unknown(unknown);
        let failed = failing.clone().run(async || Err::<usize, _>("out of stock")).await;
        assert!(matches!(failed, Err(OnceError::Failed("out of stock"))), "{failed:?}");
        assert_eq!(test.stored().await, None);
        let ledger = test.ledger.clone();
        let again = failing.run(async move || Ok::<_, ()>(ledger.number())).await.unwrap();
        assert_eq!(again, Once::First(test.ledger.runs()));
        test.store.expire(&test.id()).await.unwrap();
    }
    test.check(2, &["released", "executed", "released", "executed"]);
}

#[tokio::test]
async fn a_panic_goes_on_and_the_message_is_free_or_held() {
    let test = start().await;
    let panics = |unknown| {
        let run = message(&test).unknown(unknown).run(async || -> Result<usize, String> { panic!("mid-message") });
        std::panic::AssertUnwindSafe(run).catch_unwind()
    };
    assert_eq!(*panics(Unknown::Retry).await.unwrap_err().downcast::<&str>().unwrap(), "mid-message");
    assert_eq!(test.stored().await, None);
    assert!(panics(Unknown::Hold).await.is_err());
    assert_eq!(test.stored().await, Some(State::Unknown));
    assert!(matches!(now(&test).await, Err(OnceError::OutcomeUnknown)));
    test.check(0, &["released", "outcome_unknown", "outcome_unknown"]);
}

/// The lease is renewed for as long as the work runs, far beyond its own length.
#[tokio::test]
async fn a_slow_message_keeps_its_lease() {
    let test = start().await;
    let first = tokio::spawn(slowly(message(&test), test.ledger.clone()));
    test.answered(Verb::Renew, 5).await;
    retry_after(now(&test).await);
    test.ledger.open();
    assert_eq!(first.await.unwrap().unwrap(), Once::First(1));
    assert_eq!(test.ledger.lost(), 0);
}

/// The fence: a run that can't prove its lease is stopped; with `hold` it goes on, and is told.
#[tokio::test]
async fn a_message_that_loses_its_lease_is_stopped() {
    let test = start().await;
    test.store.every(Verb::Renew, Fault::Fail);
    let stopped = slowly(message(&test), test.ledger.clone()).await;
    assert!(matches!(stopped, Err(OnceError::LeaseLost)), "{stopped:?}");
    assert_eq!((test.ledger.dropped(), test.ledger.runs()), (1, 1));
    test.drained().await;

    let holds = tokio::spawn(slowly(message(&test).unknown(Unknown::Hold), test.ledger.clone()));
    test.ledger.begun(2).await;
    soon(async {
        while test.ledger.lost() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    test.ledger.open();
    assert_eq!(holds.await.unwrap().unwrap(), Once::First(2));
    assert_eq!(test.ledger.dropped(), 1);
}

/// Whoever waits for the value may go: the work ends, and the next delivery finds it.
#[tokio::test]
async fn a_consumer_that_stops_waiting_does_not_stop_the_work() {
    let test = start().await;
    let caller = tokio::spawn(slowly(message(&test), test.ledger.clone()));
    test.ledger.begun(1).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    test.ledger.open();
    test.drained().await;
    assert_eq!(now(&test).await.unwrap(), Once::Replayed(1));
    assert_eq!(test.ledger.dropped(), 0);
}

/// A consumer killed mid-message: the message is refused while its lease lasts, then runs once more under a higher epoch; with
/// `hold` it waits for someone.
#[test]
fn a_process_that_dies_mid_message_costs_its_lease() {
    for unknown in [Unknown::Retry, Unknown::Hold] {
        let (store, ledger) = (FaultStore::new(MemoryStore::new()), Ledger::default());
        let once = |store: &FaultStore<MemoryStore>| {
            let idempotency = Idempotency::new(store.clone());
            idempotency.once("orders.created", "m1").lease("900ms").unknown(unknown)
        };
        let dying = Runtime::new().unwrap();
        dying.spawn(slowly(once(&store), ledger.clone()));
        dying.block_on(ledger.begun(1));
        dying.shutdown_timeout(Duration::from_secs(5));
        assert_eq!(ledger.dropped(), 1);

        let _seen = Seen::start();
        Runtime::new().unwrap().block_on(async {
            let record = store.inner().get(&store.last_claim().unwrap().id).await.unwrap().unwrap();
            assert_eq!(record.state, State::InProgress);
            retry_after(once(&store).run(async || Ok(0)).await);
            store.lapse(&store.last_claim().unwrap().id).await.unwrap();
            let next = once(&store).run_with(async |attempt: Attempt| Ok((attempt.epoch(), attempt.number()))).await;
            match (unknown, next) {
                (Unknown::Hold, next) => assert!(matches!(next, Err(OnceError::<String>::OutcomeUnknown)), "{next:?}"),
                (Unknown::Retry, next) => {
                    let Ok(Once::First((Some(epoch), Some(2)))) = next else { panic!("{next:?}") };
                    assert!(epoch > record.epoch);
                }
            }
        });
    }
}

/// The store fails at the claim: nothing runs. At the completion: the work has run, and its value is stored later.
#[tokio::test]
async fn a_store_that_fails_runs_nothing_twice() {
    let test = start().await;
    test.store.outage();
    let refused = now(&test).await;
    assert!(matches!(refused, Err(OnceError::Store(StoreError::Fault(_)))), "{refused:?}");
    assert_eq!(test.ledger.runs(), 0);
    test.store.heal();
    test.drained().await;

    test.store.next(Verb::Claim, Fault::LoseAnswer);
    test.store.every(Verb::Complete, Fault::Fail);
    assert_eq!(now(&test).await.unwrap(), Once::First(1));
    assert_eq!(now(&test).await.unwrap(), Once::Replayed(1), "from memory, until the store is back");
    test.store.heal();
    test.drained().await;
    assert_eq!(now(&test).await.unwrap(), Once::Replayed(1));
    test.check(1, &["store_error", "completion_late", "replayed", "replayed"]);
}

/// A value of another type is done and not to be had; a damaged one is an error. Neither runs again.
#[tokio::test]
async fn a_value_that_cannot_be_read_is_an_error() {
    let test = start().await;
    assert_eq!(now(&test).await.unwrap(), Once::First(1));
    let ledger = test.ledger.clone();
    let other = message(&test).run(async move || Ok::<_, ()>(format!("run {}", ledger.number()))).await;
    assert!(matches!(other, Err(OnceError::NotKept)), "{other:?}");
    test.store.next(Verb::Claim, Fault::Damage);
    let damaged = now(&test).await;
    assert!(matches!(damaged, Err(OnceError::Store(StoreError::Corrupt(_)))), "{damaged:?}");
    assert_eq!(test.ledger.runs(), 1);
}

#[tokio::test]
async fn wrong_options_and_missing_ids_are_errors() {
    let test = start().await;
    let told = |once: OnceRun| async { once.run(async || Ok::<_, String>(())).await.unwrap_err().to_string() };
    assert!(told(message(&test).ttl("24 hours")).await.contains("write the unit as `h`"));
    assert!(told(message(&test).ttl("1s").lease("1s")).await.contains("`lease` must be shorter than `ttl` (1s)"));
    assert!(told(message(&test).lease("99ms")).await.contains("`lease` must be `100ms` or longer"));
    assert!(told(message(&test).ttl(Duration::ZERO)).await.contains("no time at all"));
    assert_eq!(told(test.idempotency.once("t", "")).await, "the message has no id");
    assert_eq!(told(test.idempotency.once("t", None::<u8>)).await, "the message has no id");
    assert_eq!(test.store.calls(Verb::Claim), 0);
    let _: Arc<dyn Send + Sync> = Arc::new(message(&test));
}
