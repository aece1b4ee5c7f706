//! The claim and the first turn of a run are in their caller's poll, and the rest is in a task that the caller can't cancel.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{FromRef, FromRequestParts as _, Request, State},
    response::Response,
    routing::post,
};
use futures::{FutureExt as _, poll};
use idem_runtime::{
    Attempt, Idempotency, idempotent,
    store::{Fault, FaultStore, Gate, MemoryStore, Store, Verb},
};
use tokio::{sync::Notify, task::yield_now};
use tower::ServiceExt as _;

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency,
    gate: Arc<Notify>,
    runs: Arc<AtomicUsize>,
}

#[idempotent(ttl = "1h")]
async fn ready(State(runs): State<Arc<AtomicUsize>>) -> String {
    runs.fetch_add(1, Ordering::SeqCst);
    format!("{:?}", tokio::task::try_id())
}

#[idempotent(ttl = "1h")]
async fn waits(State(gate): State<Arc<Notify>>, State(runs): State<Arc<AtomicUsize>>) -> &'static str {
    runs.fetch_add(1, Ordering::SeqCst);
    gate.notified().await;
    "went on"
}

fn start() -> (App, Router) {
    start_over(MemoryStore::new())
}

fn start_over(store: impl Store) -> (App, Router) {
    let app = App { idempotency: Idempotency::new(store), gate: Arc::default(), runs: Arc::default() };
    let router = Router::new().route("/ready", post(ready)).route("/waits", post(waits));
    (app.clone(), router.with_state(app))
}

fn request(path: &str) -> Request {
    Request::post(path).header("idempotency-key", "k1").body(Body::empty()).unwrap()
}

async fn text(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), 1000).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn a_handler_that_never_waits_needs_no_task() {
    let (app, router) = start();
    for _ in 0..2 {
        let answer = router.clone().oneshot(request("/ready")).now_or_never();
        assert_eq!(text(answer.expect("an answer in one turn").unwrap()).await, "None", "the test itself is no task");
    }
    assert_eq!(app.runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_handler_that_waits_goes_on_when_its_caller_is_gone_after_one_turn() {
    // What it waits for comes before its own task has polled it, and after.
    for turns in [0, 3] {
        let (app, router) = start();
        let mut answering = Box::pin(router.clone().oneshot(request("/waits")));
        assert!(poll!(&mut answering).is_pending());
        drop(answering);
        for _ in 0..turns {
            yield_now().await;
        }
        app.gate.notify_one();
        assert_eq!(app.idempotency.drain(Duration::from_secs(5)).await, 0);
        let retry = router.oneshot(request("/waits")).await.unwrap();
        assert!(retry.headers().contains_key("idempotent-replayed"));
        assert_eq!(text(retry).await, "went on");
        assert_eq!(app.runs.load(Ordering::SeqCst), 1);
    }
}

/// A store that answers the first claim when the gate is opened, before or after it has granted it.
fn slow_store(granted: bool) -> (FaultStore<MemoryStore>, Gate) {
    let (store, gate) = (FaultStore::new(MemoryStore::new()), Gate::new());
    let fault = if granted { Fault::DelayAnswer(gate.clone()) } else { Fault::Delay(gate.clone()) };
    store.next(Verb::Claim, fault);
    (store, gate)
}

#[tokio::test]
async fn a_claim_that_waits_needs_no_task() {
    let (store, gate) = slow_store(false);
    let (_, router) = start_over(store);
    let mut answering = Box::pin(router.oneshot(request("/ready")));
    assert!(poll!(&mut answering).is_pending());
    gate.open();
    assert_eq!(text(answering.await.unwrap()).await, "None", "the test itself is no task");
}

#[tokio::test]
async fn a_caller_gone_while_the_store_is_asked_leaves_the_work_to_a_task() {
    for granted in [false, true] {
        let (store, gate) = slow_store(granted);
        let (app, router) = start_over(store);
        let mut answering = Box::pin(router.clone().oneshot(request("/ready")));
        assert!(poll!(&mut answering).is_pending());
        drop(answering);
        gate.open();
        assert_eq!(app.idempotency.drain(Duration::from_secs(5)).await, 0);
        assert_eq!(app.runs.load(Ordering::SeqCst), 1, "it ran before the retry");
        let retry = router.oneshot(request("/ready")).await.unwrap();
        assert!(retry.headers().contains_key("idempotent-replayed"));
        assert!(text(retry).await.starts_with("Some("), "it ran in a task");
    }
}

/// Nobody needs a runtime to drop a request.
#[test]
fn a_caller_may_go_outside_its_runtime() {
    for runtime_is_gone in [false, true] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (store, gate) = slow_store(true);
        let (app, router) = start_over(store);
        let mut answering = Box::pin(router.oneshot(request("/ready")));
        assert!(runtime.block_on(async { poll!(&mut answering) }).is_pending());
        gate.open();
        if runtime_is_gone {
            drop(runtime);
            drop(answering);
            assert_eq!(app.runs.load(Ordering::SeqCst), 0);
        } else {
            drop(answering);
            assert_eq!(runtime.block_on(app.idempotency.drain(Duration::from_secs(5))), 0);
            assert_eq!(app.runs.load(Ordering::SeqCst), 1);
        }
    }
}

/// The request stands for its attempt as long as somebody has it.
#[idempotent(ttl = "1h")]
async fn asks_late(request: Request) -> String {
    let (mut parts, _) = request.into_parts();
    let Ok(attempt) = Attempt::from_request_parts(&mut parts, &()).await;
    format!("{:?}", attempt.number())
}

#[tokio::test]
async fn a_handler_may_ask_for_its_attempt_when_it_runs() {
    let (app, _) = start();
    let router: Router = Router::new().route("/late", post(asks_late)).with_state(app);
    assert_eq!(text(router.oneshot(request("/late")).await.unwrap()).await, "Some(1)");
}
