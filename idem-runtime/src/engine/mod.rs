//! Drives a store and the protocol round a future: claim, run detached, renew, settle, wait. Knows no HTTP.
//!
//! [`Engine::guard`] is the one way in.

mod asking;
mod attempt;
mod cache;
mod calls;
mod claim;
mod clock;
mod handover;
mod pending;
mod run;
mod running;
mod settle;
mod transact;
mod waiters;

use std::{
    any::Any,
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::{
    protocol::{Claim, Fingerprint, RecordId},
    store::{DynStore, NotCommitted, PurgeLimits, Purged, StoreError, Wakeups},
    telemetry::Operation,
};

pub(crate) use attempt::AttemptCell;
pub(crate) use cache::LocalCache;
pub(crate) use clock::token;
pub(crate) use handover::Handover;
use pending::Pending;
pub(crate) use running::Running;
pub(crate) use waiters::Waiters;

/// One store and what is going on around it.
pub(crate) struct Engine {
    store: Arc<dyn DynStore>,
    /// How long a caller waits for the store.
    store_timeout: Duration,
    waiters: Arc<Waiters>,
    running: Arc<Running>,
    pending: Arc<Pending>,
    cache: Option<Arc<LocalCache>>,
    listening: AtomicBool,
    /// Bounds the claims that may have been made unseen and are being released.
    abandoned: Arc<Semaphore>,
}

/// At most this many unseen claims are released at once; the rest lapse with their leases.
const ABANDONED: usize = 1024;

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("store", &self.store.dyn_name()).finish_non_exhaustive()
    }
}

/// A guarded piece of work.
pub(crate) struct Job<W> {
    /// What is claimed, and how.
    pub(crate) claim: Claim,
    /// The operation's name, for metrics.
    pub(crate) operation: Operation,
    /// How long a duplicate waits for the running attempt.
    pub(crate) wait: Duration,
    /// Filled for the handler when it starts; `None` where nobody would look.
    pub(crate) attempt: Option<Arc<AttemptCell>>,
    /// What runs if the claim succeeds.
    pub(crate) work: W,
}

impl<W> Job<W> {
    /// Whether a parameter asks for the transaction that the record commits in.
    pub(crate) fn is_transaction(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.handover().asked() > 0)
    }

    fn seen(self) -> Seen {
        Seen { operation: self.operation, id: self.claim.id }
    }
}

/// What whoever reads an outcome reports it under.
pub(crate) struct Seen {
    pub(crate) operation: Operation,
    pub(crate) id: RecordId,
}

/// What is guarded.
pub(crate) trait Work: Send + 'static {
    /// What the caller gets.
    type Reply: Send + 'static;

    /// Runs it on, to its end once. The first turn may be in another task than the rest.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer<Self::Reply>>;

    /// Runs it, once, in a transaction that is lent by its [`AttemptCell`].
    fn transact(self) -> impl Future<Output = Written<Self::Reply>> + Send;
}

/// What the work came to: a reply for its caller, and what becomes of the record.
pub(crate) struct Answer<T> {
    pub(crate) reply: T,
    pub(crate) settle: Settle,
}

/// What becomes of a record.
pub(crate) enum Settle {
    /// The outcome is stored.
    Keep(Bytes),
    /// The claim is forgotten.
    Release,
    /// The outcome is marked unknown.
    Hold,
    /// The claim is forgotten and not reported: the reply goes on under a claim of its own.
    HandOver,
    /// Known once the reply has been copied on its way; the lease is renewed until then.
    Later {
        /// The outcome to store if the copy is cut short.
        cut: Bytes,
        /// Copies.
        copy: Pin<Box<dyn Future<Output = Settled> + Send>>,
    },
}

/// The end of [`Settle::Later`].
pub(crate) struct Settled {
    /// The outcome to store.
    pub(crate) keep: Bytes,
    /// What goes on unguarded after the record is settled.
    pub(crate) rest: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// What the work in a transaction came to.
pub(crate) struct Written<T> {
    pub(crate) reply: T,
    pub(crate) close: Close,
    /// The reply says that the work failed: where a statement in the transaction did, its caller is told to retry.
    pub(crate) failed: bool,
}

/// What becomes of a transaction and its record.
pub(crate) enum Close {
    /// Everything is committed, with this outcome.
    Commit(Bytes),
    /// Everything is undone; then the outcome is stored.
    Record(Bytes),
    /// Everything is undone; then the outcome is marked unknown.
    Hold,
    /// Everything is undone.
    Forget,
}

/// What became of a job.
pub(crate) enum Verdict<W: Work> {
    /// It ran, and this is its reply.
    Ran(W::Reply),
    /// It panicked; the record is settled.
    Panicked(Box<dyn Any + Send>),
    /// It was stopped because its lease could not be proved.
    LeaseLost,
    /// It ran before: the stored outcome, and whether this caller waited for it. Whoever reads it reports it.
    Replay { outcome: Bytes, waited: bool, seen: Seen },
    /// It runs, for this much longer unless it renews.
    InProgress { lease_left: Option<Duration> },
    /// It ran before, and nobody knows what it did.
    Unknown,
    /// The key belongs to another request, with this fingerprint beside this one's own.
    Mismatch { own: Fingerprint, stored: Bytes },
    /// It ran in a transaction, which did not commit or may not have.
    NotCommitted(NotCommitted),
    /// The store failed at the claim; the job comes back unrun.
    Unavailable(StoreError, Box<Job<W>>),
}

impl Engine {
    pub(crate) fn new(store: Arc<dyn DynStore>, store_timeout: Duration, cache: Option<LocalCache>) -> Self {
        Self {
            store,
            store_timeout,
            cache: cache.map(Arc::new),
            waiters: Arc::default(),
            running: Arc::default(),
            pending: Arc::default(),
            listening: AtomicBool::new(false),
            abandoned: Arc::new(Semaphore::new(ABANDONED)),
        }
    }

    pub(crate) fn store(&self) -> &Arc<dyn DynStore> {
        &self.store
    }

    pub(crate) fn cache(&self) -> Option<&LocalCache> {
        self.cache.as_deref()
    }

    /// Removes a record whatever its state. What is at hand goes too, even if nobody hears the store's answer.
    pub(crate) async fn forget(&self, id: &RecordId) -> Result<bool, StoreError> {
        let _doubt = Doubt { engine: self, id };
        self.store.dyn_forget(id).await
    }

    /// Removes expired records; see [`Store::purge`](crate::store::Store::purge).
    pub(crate) async fn purge(&self, limits: PurgeLimits) -> Result<Purged, StoreError> {
        if let Some(cache) = &self.cache {
            cache.free_expired(clock::now());
        }
        self.store.dyn_purge(limits).await
    }

    /// Keeps no outcome of this record at hand: it is not, or may not be, what the store would answer.
    pub(crate) fn doubt(&self, id: &RecordId) {
        if let Some(cache) = &self.cache {
            cache.doubt(id);
        }
    }

    /// The record's outcome, if it needs no store, and which request's it is.
    fn at_hand(&self, id: &RecordId) -> Option<(Fingerprint, Bytes)> {
        let cached = || self.cache.as_ref()?.get(id, clock::now());
        self.pending.get(id).or_else(cached)
    }

    pub(crate) fn running(&self) -> &Arc<Running> {
        &self.running
    }

    /// Lets the store listen for settlements elsewhere, once, from inside the runtime.
    fn listen(&self) {
        if !self.listening.load(Ordering::Relaxed) && !self.listening.swap(true, Ordering::SeqCst) {
            self.store.dyn_listen(Wakeups(Arc::clone(&self.waiters)));
        }
    }
}

/// Doubts a record when dropped.
struct Doubt<'a> {
    engine: &'a Engine,
    id: &'a RecordId,
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        self.engine.doubt(self.id);
    }
}
