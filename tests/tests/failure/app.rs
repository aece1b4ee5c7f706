//! Handlers over a store that fails on demand.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Json, Router, body::Bytes, extract::FromRef, http::StatusCode, response::IntoResponse};
use http_body::Frame;
use idem_runtime::{
    Attempt, Builder, Idempotency,
    store::{FaultStore, MemoryStore, Record, RecordId, State as Stored, Store as _, Verb},
};
use idem_tests::server::{Answer, Server};
use tokio::sync::{Notify, Semaphore};

pub(crate) use crate::routes::router;
use crate::seen::Seen;

#[derive(Clone, FromRef)]
pub(crate) struct App {
    pub(crate) ledger: Ledger,
    pub(crate) idempotency: Idempotency,
}

/// What the handlers did, and what holds them up.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Inner>);

struct Inner {
    begun: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
    dropped: AtomicUsize,
    lost: AtomicUsize,
    changed: Notify,
    gate: Semaphore,
    statuses: Mutex<Vec<u16>>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            begun: AtomicUsize::new(0),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            changed: Notify::new(),
            gate: Semaphore::new(0),
            statuses: Mutex::default(),
        }
    }
}

/// One run, from its start to its end or its drop.
pub(crate) struct Run {
    ledger: Ledger,
    number: usize,
    ended: bool,
}

impl Ledger {
    pub(crate) fn begin(&self) -> Run {
        let number = self.0.begun.fetch_add(1, SeqCst) + 1;
        self.0.most.fetch_max(self.0.now.fetch_add(1, SeqCst) + 1, SeqCst);
        self.0.changed.notify_waiters();
        Run { ledger: self.clone(), number, ended: false }
    }
    /// A run that ends at once; its number.
    pub(crate) fn number(&self) -> usize {
        let mut run = self.begin();
        run.ended = true;
        run.number
    }
    pub(crate) fn runs(&self) -> usize {
        self.0.begun.load(SeqCst)
    }
    /// How many runs there were at one time, at most.
    pub(crate) fn most(&self) -> usize {
        self.0.most.load(SeqCst)
    }
    /// How many runs were dropped before their end.
    pub(crate) fn dropped(&self) -> usize {
        self.0.dropped.load(SeqCst)
    }
    /// How many runs were told that their lease is lost.
    pub(crate) fn lost(&self) -> usize {
        self.0.lost.load(SeqCst)
    }
    /// Waits until `runs` runs have begun.
    pub(crate) async fn begun(&self, runs: usize) {
        self.reached(|| self.runs() >= runs).await;
    }
    /// Waits until a run was told that its lease is lost.
    pub(crate) async fn told_lost(&self) {
        self.reached(|| self.lost() > 0).await;
    }
    async fn reached(&self, condition: impl Fn() -> bool) {
        soon(async {
            loop {
                let changed = self.0.changed.notified();
                if condition() {
                    return;
                }
                changed.await;
            }
        })
        .await;
    }
    /// Lets one held-up run go on.
    pub(crate) fn open(&self) {
        self.0.gate.add_permits(1);
    }
    pub(crate) async fn gate(&self) {
        self.0.gate.acquire().await.unwrap().forget();
    }
    /// The statuses of the coming answers; 201 when there are no more.
    pub(crate) fn answer_with(&self, statuses: &[u16]) {
        *self.0.statuses.lock().unwrap() = statuses.iter().rev().copied().collect();
    }
}

impl Run {
    pub(crate) fn end(mut self) -> (StatusCode, Json<usize>) {
        self.ended = true;
        let status = self.ledger.0.statuses.lock().unwrap().pop().unwrap_or(201);
        (StatusCode::from_u16(status).unwrap(), Json(self.number))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.ledger.0.now.fetch_sub(1, SeqCst);
        if !self.ended {
            self.ledger.0.dropped.fetch_add(1, SeqCst);
        }
        self.ledger.0.changed.notify_waiters();
    }
}

/// Holds a run up until its gate opens.
pub(crate) async fn held_up(ledger: Ledger, attempt: Attempt) -> impl IntoResponse {
    let run = ledger.begin();
    let told = ledger.clone();
    tokio::spawn(async move {
        attempt.lease_lost().await;
        told.0.lost.fetch_add(1, SeqCst);
        told.0.changed.notify_waiters();
    });
    soon(ledger.gate()).await;
    run.end()
}

/// A body that panics behind `left` pieces; `wait` makes it a slow one.
pub(crate) struct Panics {
    pub(crate) left: usize,
    pub(crate) wait: bool,
}

impl http_body::Body for Panics {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.wait {
            self.wait = false;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        assert!(self.left > 0, "the body panics");
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"piece")))))
    }
}

/// Panics on its first run.
pub(crate) fn panic_once(ledger: &Ledger) -> StatusCode {
    assert!(ledger.number() > 1, "at once");
    StatusCode::OK
}

/// Waits for what is sure to come; what doesn't fails the test instead of holding it up.
pub(crate) async fn soon<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), event).await.expect("an event that never came")
}

/// A server of its own for each test, with everything in sight.
pub(crate) struct Test {
    pub(crate) seen: Seen,
    pub(crate) server: Server,
    pub(crate) ledger: Ledger,
    pub(crate) idempotency: Idempotency,
    pub(crate) store: FaultStore<MemoryStore>,
}

pub(crate) async fn start() -> Test {
    start_with(|builder| builder, router).await
}

pub(crate) async fn start_with(configure: impl FnOnce(Builder) -> Builder, router: impl FnOnce(App) -> Router) -> Test {
    let seen = Seen::start();
    let store = FaultStore::new(MemoryStore::new());
    let idempotency = configure(Idempotency::builder(store.clone())).build();
    let ledger = Ledger::default();
    let app = App { ledger: ledger.clone(), idempotency: idempotency.clone() };
    Test { seen, server: Server::start(router(app)).await, ledger, idempotency, store }
}

impl Test {
    /// Sends a POST with the key `k1`.
    pub(crate) async fn send(&self, path: &str) -> Answer {
        Answer::to(self.server.post(path, "k1")).await
    }

    /// Sends a POST with the key `k1` without waiting for its answer.
    pub(crate) fn begin(&self, path: &str) -> tokio::task::JoinHandle<Answer> {
        tokio::spawn(Answer::to(self.server.post(path, "k1")))
    }

    /// Waits until so many calls of `verb` have been answered.
    pub(crate) async fn answered(&self, verb: Verb, calls: usize) {
        soon(self.store.answered(verb, calls)).await;
    }

    /// Waits until so many calls of `verb` have arrived.
    pub(crate) async fn arrived(&self, verb: Verb, calls: usize) {
        soon(self.store.arrived(verb, calls)).await;
    }

    /// The id of the newest claim.
    pub(crate) fn id(&self) -> RecordId {
        self.store.last_claim().expect("a claim").id
    }

    /// The record of the newest claim.
    pub(crate) async fn record(&self) -> Option<Record> {
        self.store.inner().get(&self.id()).await.unwrap()
    }

    /// Where the record of the newest claim stands.
    pub(crate) async fn stored(&self) -> Option<Stored> {
        self.record().await.map(|record| record.state)
    }

    /// Waits until no attempt runs or waits to be settled.
    pub(crate) async fn drained(&self) {
        assert_eq!(self.idempotency.drain(Duration::from_secs(20)).await, 0);
    }

    /// Checks how often handlers ran and which outcomes were reported.
    #[track_caller]
    pub(crate) fn check(&self, runs: usize, outcomes: &[&str]) {
        assert_eq!(
            (self.ledger.runs(), self.seen.outcomes()),
            (runs, outcomes.iter().map(|&name| name.into()).collect())
        );
    }
}

/// Checks a refusal and the seconds in its `Retry-After`.
#[track_caller]
pub(crate) fn refused(answer: &Answer, status: u16, code: &str, retry_after: Option<&str>) {
    assert_eq!((answer.status, answer.problem().as_str()), (status, code));
    assert_eq!(answer.headers.get("retry-after").map(|value| value.to_str().unwrap()), retry_after);
}
