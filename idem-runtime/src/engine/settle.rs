//! The end of an attempt, told to the store.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
};

use bytes::Bytes;
use tracing::Instrument as _;

use super::{
    Engine,
    cache::Reserved,
    calls::{End, bounded},
    clock,
    pending::PendingOutcome,
    run::Owner,
};
use crate::{
    protocol::{Ack, Reading},
    store::{Immediate, StoreError},
    telemetry::{self, Outcome},
};

impl Engine {
    /// Stores the outcome.
    pub(super) async fn keep(self: &Arc<Self>, owner: Owner, outcome: Bytes) {
        let end = owner.completion(outcome);
        self.settle(owner, end).await;
    }

    /// Tells the store how the attempt ended. What the store doesn't take now is repeated in the background, so that the
    /// caller has its answer; the attempt counts as running until then.
    pub(super) async fn settle(self: &Arc<Self>, owner: Owner, end: End) {
        let place = self.place(&end);
        let mut pending = None;
        let ending = bounded(self.end(&owner.claim, &end), self.store_timeout);
        let result = self.leased(&owner, &end, ending, &mut pending).await;
        self.settled(owner, end, place, pending, result);
    }

    /// As [`settle`](Self::settle), with a store that never waits.
    pub(super) fn settle_at_once(self: &Arc<Self>, store: &dyn Immediate, owner: Owner, end: End) {
        let place = self.place(&end);
        let result = self.end_at_once(store, &owner.claim, &end);
        self.settled(owner, end, place, None, result);
    }

    /// The local cache's place for the outcome, and when it was taken.
    fn place(&self, end: &End) -> Option<(Reserved, Reading)> {
        match end {
            End::Complete(done) => self.cache.as_ref()?.reserve(done.id).map(|place| (place, clock::now())),
            End::Release | End::Hold | End::HandOver => None,
        }
    }

    /// Acts on what the store said of an attempt's end.
    fn settled(
        self: &Arc<Self>,
        owner: Owner,
        end: End,
        place: Option<(Reserved, Reading)>,
        pending: Option<PendingOutcome>,
        result: Result<Ack, StoreError>,
    ) {
        let claim = &owner.claim;
        let outcome = match result {
            Ok(Ack::Done) => match &end {
                End::Complete(done) => {
                    if let Some((place, sent)) = place {
                        place.fill(done.fingerprint, &done.outcome, sent, done.ttl);
                    }
                    if owner.number > 1 { Outcome::Takeover } else { Outcome::Executed }
                }
                End::Release => Outcome::Released,
                End::Hold => Outcome::Held,
                End::HandOver => return self.waiters.wake(&claim.id),
            },
            // Another attempt owns or settled the record: this one changed nothing.
            Ok(Ack::Lost) if matches!(end, End::HandOver) => return,
            Ok(Ack::Lost) => Outcome::LeaseLost,
            Err(error) => {
                telemetry::store_failed("settle", &claim.id, &error);
                if !matches!(end, End::HandOver) {
                    telemetry::outcome(Outcome::CompletionLate, &owner.operation, Some(&claim.id));
                }
                if matches!(error, StoreError::Fault(_)) {
                    let engine = Arc::clone(self);
                    // Before the caller has its answer and may retry.
                    let mut pending = pending.or_else(|| self.pend(&end));
                    let ending = async move {
                        let ending = engine.end_eventually(&owner.claim, end.clone());
                        engine.leased(&owner, &end, ending, &mut pending).await;
                    };
                    tokio::spawn(ending.in_current_span());
                }
                return;
            }
        };
        telemetry::outcome(outcome, &owner.operation, Some(&claim.id));
        self.waiters.wake(&claim.id);
    }

    /// Keeps the lease while `ending` takes its time, and the outcome at hand, so that nobody runs what has run. A key to
    /// be freed needs neither.
    async fn leased<T>(
        self: &Arc<Self>,
        owner: &Owner,
        end: &End,
        ending: impl Future<Output = T>,
        pending: &mut Option<PendingOutcome>,
    ) -> T {
        let (mut ending, mut renewing) = (pin!(ending), pin!(self.keep_lease(owner, true)));
        let mut gave_up = matches!(end, End::Release | End::HandOver);
        poll_fn(|context| {
            let ended = ending.as_mut().poll(context);
            if ended.is_pending() {
                if pending.is_none() {
                    *pending = self.pend(end);
                }
                gave_up = gave_up || renewing.as_mut().poll(context).is_ready();
            }
            ended
        })
        .await
    }

    fn pend(&self, end: &End) -> Option<PendingOutcome> {
        match end {
            End::Complete(done) => Some(self.pending.add(done.id, done.fingerprint, done.outcome.clone())),
            End::Release | End::Hold | End::HandOver => None,
        }
    }
}
