//! The process goes while handlers run.

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use idem_runtime::{
    Idempotency,
    store::{Fault, FaultStore, Gate, MemoryStore, State, Store as _, Verb},
};
use idem_tests::server::Server;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use crate::app::{App, Ledger, router, start};

/// One process's worth: a runtime with a server, on a store that outlives it.
fn process(store: &FaultStore<MemoryStore>, ledger: &Ledger) -> (Runtime, App, Server) {
    let runtime = Runtime::new().unwrap();
    let app = App { ledger: ledger.clone(), idempotency: Idempotency::new(store.clone()) };
    let server = runtime.block_on(Server::start(router(app.clone())));
    (runtime, app, server)
}

/// L1, L3, K12, K19: dropped mid-run without a drain. The key is refused while the lease lasts, then runs once more; with
/// `hold` it is refused until someone decides.
#[test]
fn a_runtime_dropped_mid_run_costs_its_lease() {
    for (path, hold) in [("/slow", false), ("/slow-hold", true)] {
        let (store, ledger) = (FaultStore::new(MemoryStore::new()), Ledger::default());
        let (runtime, _, server) = process(&store, &ledger);
        let lost = runtime.spawn(server.post(path, "k1").send());
        runtime.block_on(ledger.begun(1));
        drop(server);
        runtime.shutdown_timeout(Duration::from_secs(5));
        drop(lost);
        assert_eq!(ledger.dropped(), 1);

        let (runtime, _, server) = process(&store, &ledger);
        runtime.block_on(async {
            let send = || idem_tests::server::Answer::to(server.post(path, "k1"));
            let id = store.last_claim().unwrap().id;
            let record = store.inner().get(&id).await.unwrap().unwrap();
            assert_eq!(record.state, State::InProgress);
            if !record.lease_left.is_zero() {
                let refused = send().await;
                assert_eq!((refused.status, refused.problem().as_str()), (409, "idempotency_in_progress"));
                assert_eq!(refused.headers["retry-after"], "1");
            }
            tokio::time::sleep(record.lease_left).await;
            ledger.open();
            let answer = send().await;
            if hold {
                assert_eq!(answer.problem(), "idempotency_outcome_unknown");
                assert_eq!(ledger.runs(), 1);
            } else {
                assert_eq!((answer.status, answer.text().as_str()), (201, "2"));
                assert!(send().await.is_replay());
                assert_eq!((ledger.runs(), ledger.most()), (2, 1));
            }
        });
    }
}

/// With a drain nothing is lost: the run ends, and the next process replays it.
#[test]
fn a_drained_runtime_loses_nothing() {
    let (store, ledger) = (FaultStore::new(MemoryStore::new()), Ledger::default());
    let (runtime, app, server) = process(&store, &ledger);
    let lost = runtime.spawn(server.post("/slow", "k1").send());
    runtime.block_on(ledger.begun(1));
    lost.abort();
    drop(server);
    ledger.open();
    assert_eq!(runtime.block_on(app.idempotency.drain(Duration::from_secs(20))), 0);
    runtime.shutdown_timeout(Duration::from_secs(5));

    let (runtime, _, server) = process(&store, &ledger);
    let answer = runtime.block_on(idem_tests::server::Answer::to(server.post("/slow", "k1")));
    assert!(answer.is_replay());
    assert_eq!((ledger.runs(), ledger.dropped()), (1, 0));
}

/// A caller that is dropped before the claim is answered: whatever the claim made is settled.
#[tokio::test]
async fn a_caller_dropped_during_the_claim_leaves_no_claim_behind() {
    use idem_runtime::store::{Fault, Gate, Verb};
    let test = start().await;
    let gate = Gate::new();
    test.store.next(Verb::Claim, Fault::DelayAnswer(gate.clone()));
    let app = router(App { ledger: test.ledger.clone(), idempotency: test.idempotency.clone() });
    let request = || Request::post("/pay").header("idempotency-key", "k1").body(Body::empty()).unwrap();
    let caller = tokio::spawn(app.clone().oneshot(request()));
    test.arrived(Verb::Claim, 1).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    gate.open();
    test.answered(Verb::Complete, 1).await;
    let retry = app.oneshot(request()).await.unwrap();
    assert_eq!(retry.headers()["idempotent-replayed"], "true");
    assert_eq!(to_bytes(retry.into_body(), 100).await.unwrap(), "1");
    test.check(1, &["executed", "replayed"]);
}

/// A claim on its way may become a run: `drain` waits for it.
#[tokio::test]
async fn drain_waits_for_a_claim_on_its_way() {
    let test = start().await;
    let gate = Gate::new();
    test.store.next(Verb::Claim, Fault::Delay(gate.clone()));
    let answer = test.begin("/pay");
    test.arrived(Verb::Claim, 1).await;
    assert_eq!(test.idempotency.drain(Duration::from_millis(10)).await, 1);
    gate.open();
    assert_eq!(answer.await.unwrap().status, 201);
    test.drained().await;
}
