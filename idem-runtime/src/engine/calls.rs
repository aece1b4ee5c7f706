//! Store calls that are never dropped half-way, and the ones that are repeated until they land.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument as _;

use super::Engine;
use crate::{
    protocol::{Ack, Claim},
    store::{Completion, Immediate, StoreError},
    telemetry::{self, Stopwatch},
};

pub(super) type Call<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Waits for `call` for `limit` at most, without dropping it: a late one goes on in a task of its own.
///
/// Only for tasks that nobody cancels.
pub(super) async fn bounded<T: Send + 'static>(mut call: Call<T>, limit: Duration) -> Result<T, StoreError> {
    if let Some(result) = poll_once(&mut call).await {
        return result;
    }
    if let Ok(result) = timeout(limit, &mut call).await {
        result
    } else {
        tokio::spawn(call);
        Err(late(limit))
    }
}

pub(super) fn late(limit: Duration) -> StoreError {
    StoreError::fault(format!("no answer within {limit:?}"))
}

/// The future's result if it has one at once. The memory store's always do, and then nothing is spawned or timed.
pub(super) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        Poll::Ready(match Pin::new(&mut *future).poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// Does something with the caller's context, without waiting.
pub(super) async fn at_once<T>(something: impl FnOnce(&mut Context<'_>) -> T) -> T {
    let mut something = Some(something);
    std::future::poll_fn(|context| something.take().map_or(Poll::Pending, |something| Poll::Ready(something(context))))
        .await
}

/// One of the verbs that end an attempt.
#[derive(Clone, Debug)]
pub(super) enum End {
    Complete(Completion),
    Release,
    Hold,
    /// A release that nobody hears of: another claim guards the work.
    HandOver,
}

impl End {
    const fn verb(&self) -> &'static str {
        match self {
            Self::Complete(_) => "complete",
            Self::Release | Self::HandOver => "release",
            Self::Hold => "hold",
        }
    }
}

impl Engine {
    pub(super) fn end(&self, claim: &Claim, end: &End) -> Call<Ack> {
        let (store, id, token, ttl) = (Arc::clone(&self.store), claim.id, claim.token, claim.ttl);
        let (end, began) = (end.clone(), Stopwatch::start());
        Box::pin(async move {
            let result = match &end {
                End::Complete(completion) => store.dyn_complete(completion).await,
                End::Release | End::HandOver => store.dyn_release(&id, &token).await,
                End::Hold => store.dyn_hold(&id, &token, ttl).await,
            };
            began.store_time(end.verb(), store.dyn_name(), result.is_err());
            result
        })
    }

    pub(super) fn end_at_once(&self, store: &dyn Immediate, claim: &Claim, end: &End) -> Result<Ack, StoreError> {
        let began = Stopwatch::start();
        let result = match end {
            End::Complete(completion) => store.complete_now(completion),
            End::Release | End::HandOver => store.release_now(&claim.id, &claim.token),
            End::Hold => store.hold_now(&claim.id, &claim.token, claim.ttl),
        };
        began.store_time(end.verb(), self.store.dyn_name(), result.is_err());
        result
    }

    pub(super) fn renew(&self, claim: &Claim) -> Call<Ack> {
        let (store, id, token, lease) = (Arc::clone(&self.store), claim.id, claim.token, claim.lease);
        let began = Stopwatch::start();
        Box::pin(async move {
            let result = store.dyn_renew(&id, &token, lease).await;
            began.store_time("renew", store.dyn_name(), result.is_err());
            result
        })
    }

    /// Repeats `end` until the store acknowledges it or there is no more use in it.
    pub(super) async fn end_eventually(&self, claim: &Claim, end: End) {
        // A lapsed claim is out of the way by itself, but with `hold` it blocks its key until it expires.
        let lasts = match end {
            End::Release | End::HandOver if !claim.hold => claim.lease,
            End::Release | End::HandOver => claim.lease.saturating_add(claim.ttl),
            End::Complete(_) | End::Hold => claim.ttl,
        };
        let until = Instant::now() + lasts.min(Duration::from_hours(30 * 24));
        // A claim that the store held back may take the record over although its caller has given up; once that is
        // released, the outcome finds its place.
        let patience = Instant::now() + claim.lease.saturating_add(self.store_timeout);
        let mut pause = Duration::from_millis(50);
        loop {
            match bounded(self.end(claim, &end), self.store_timeout).await {
                Ok(Ack::Lost) if matches!(end, End::Complete(_)) && Instant::now() < patience => {}
                Ok(ack) => {
                    if ack == Ack::Lost {
                        tracing::warn!(target: "idem", verb = end.verb(), record = %claim.id, "another attempt settled the record");
                    }
                    return self.waiters.wake(&claim.id);
                }
                Err(error @ StoreError::Corrupt(_)) => return telemetry::store_failed(end.verb(), &claim.id, &error),
                Err(error) if Instant::now() >= until => return telemetry::store_failed(end.verb(), &claim.id, &error),
                Err(_) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Releases a claim that may have been made without our hearing of it, once the late call, if any, has ended.
    pub(super) fn abandon(self: &Arc<Self>, claim: Claim, late: Option<impl Future<Output: Send> + Send + 'static>) {
        let Ok(permit) = Arc::clone(&self.abandoned).try_acquire_owned() else {
            if let Some(late) = late {
                tokio::spawn(late);
            }
            return;
        };
        let (engine, busy) = (Arc::clone(self), self.running.busy());
        let releasing = async move {
            let _busy = busy;
            // What it gives is held until the release has landed.
            let _held = match late {
                Some(late) => Some(late.await),
                None => None,
            };
            engine.end_eventually(&claim, End::Release).await;
            drop(permit);
        };
        tokio::spawn(releasing.in_current_span());
    }
}
