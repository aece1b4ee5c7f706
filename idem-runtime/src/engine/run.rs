//! The owner's run: the work, kept inside its lease.

use std::{
    any::Any,
    future::{Future, poll_fn, ready},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;

use super::{Answer, Engine, Job, Settle, Settled, Work, attempt::Started, calls::End, clock, running::RunGuard};
use crate::{
    protocol::{Ack, Claim, Fence, Reading},
    store::{Completion, NotCommitted},
    telemetry::{self, Outcome},
};

/// How an owner's run ended, for its caller.
pub(super) enum Ran<T> {
    Reply(T),
    Panicked(Box<dyn Any + Send>),
    LeaseLost,
    /// It ran in a transaction, which did not commit or may not have.
    NotCommitted(NotCommitted),
    /// It had run before, and the store had not heard of it yet.
    Before(Bytes),
}

/// A run that has started: what is needed to settle it.
pub(super) struct Owner {
    pub(super) claim: Claim,
    pub(super) operation: Arc<str>,
    pub(super) epoch: u64,
    pub(super) number: u32,
    attempt: Arc<super::AttemptCell>,
    lease: Mutex<Fence>,
    /// Counted until the record is settled.
    running: RunGuard,
}

impl Owner {
    fn fence<T>(&self, look: impl FnOnce(&mut Fence) -> T) -> T {
        look(&mut self.lease.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How to store the outcome.
    pub(super) fn completion(&self, outcome: Bytes) -> End {
        let Claim { id, token, fingerprint, ttl, .. } = self.claim;
        End::Complete(Completion { id, token, epoch: self.epoch, attempt: self.number, fingerprint, ttl, outcome })
    }

    fn is_lost(&self) -> bool {
        self.fence(|fence| fence.is_lost(clock::now()))
    }
}

/// Why the work stopped.
enum Stop<T> {
    Finished(T),
    Panicked(Box<dyn Any + Send>),
    Lost,
}

impl Engine {
    /// Runs the work and settles the record. The claim that made us the owner was sent at `sent`.
    pub(super) async fn run<W: Work>(
        self: Arc<Self>,
        job: Box<Job<W>>,
        sent: Reading,
        epoch: u64,
        number: u32,
    ) -> Ran<W::Reply> {
        // The store knew of no outcome.
        self.doubt(&job.claim.id);
        let Job { claim, operation, attempt, work, .. } = *job;
        attempt.start(Started { token: claim.token, epoch, number });
        let lease = Mutex::new(Fence::new(claim.lease, sent, claim.ttl));
        let owner = Owner { claim, operation, epoch, number, attempt, lease, running: self.running.enter() };
        if let Some((fingerprint, outcome)) = self.pending.get(&owner.claim.id)
            && owner.claim.matches(&fingerprint)
        {
            // This claim overtook the completion: it carries the outcome itself.
            let end = owner.completion(outcome.clone());
            tokio::spawn(async move { self.end_eventually(&owner.claim, end).await });
            return Ran::Before(outcome);
        }
        if owner.is_lost() {
            return self.lose(owner);
        }
        let began = Instant::now();
        let stop = self.drive(&owner, work.run()).await;
        if !matches!(stop, Stop::Finished(Answer { settle: Settle::HandOver, .. })) {
            telemetry::handler_time(&owner.operation, began.elapsed());
        }
        match stop {
            Stop::Lost => self.lose(owner),
            Stop::Panicked(payload) => {
                let end = if owner.claim.hold { End::Hold } else { End::Release };
                self.settle(owner, end).await;
                Ran::Panicked(payload)
            }
            Stop::Finished(Answer { reply, settle }) => {
                match settle {
                    Settle::Keep(outcome) => self.keep(owner, outcome).await,
                    Settle::Release => self.settle(owner, End::Release).await,
                    Settle::Hold => self.settle(owner, End::Hold).await,
                    Settle::HandOver => self.settle(owner, End::HandOver).await,
                    Settle::Later { cut, copy } => {
                        tokio::spawn(Arc::clone(&self).settle_later(owner, cut, copy).in_current_span());
                    }
                }
                Ran::Reply(reply)
            }
        }
    }

    /// A run that was stopped, or never started: the key is free as soon as the store hears of it.
    fn lose<T>(self: &Arc<Self>, owner: Owner) -> Ran<T> {
        owner.attempt.lose();
        telemetry::outcome(Outcome::LeaseLost, &owner.operation, Some(&owner.claim.id));
        self.abandon(owner.claim, Some(ready(owner.running)));
        Ran::LeaseLost
    }

    /// Keeps the lease until what the reply streams has been copied, and settles. A copy that is cut short leaves what
    /// is known of the answer: the handler has ended, and a retry must not run it again.
    async fn settle_later(
        self: Arc<Self>,
        owner: Owner,
        cut: Bytes,
        copy: Pin<Box<dyn Future<Output = Settled> + Send>>,
    ) {
        match self.drive(&owner, copy).await {
            Stop::Finished(Settled { keep, rest }) => {
                self.keep(owner, keep).await;
                if let Some(rest) = rest {
                    rest.await;
                }
            }
            Stop::Panicked(_) | Stop::Lost => self.keep(owner, cut).await,
        }
    }

    /// Polls `work` for as long as the lease can be proved, renewing it. With `hold` the work runs on without.
    async fn drive<F: Future>(self: &Arc<Self>, owner: &Owner, work: F) -> Stop<F::Output> {
        let mut work = pin!(work);
        let mut renewing = pin!(self.keep_lease(owner, owner.claim.hold));
        let mut gave_up = false;
        poll_fn(|context| {
            // Before every poll: after a sleep of the machine the work must not take another step.
            if !owner.claim.hold && owner.is_lost() {
                return Poll::Ready(Stop::Lost);
            }
            // The panic goes on to the caller once the record is settled, so nobody sees a half-updated state.
            match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
                Ok(Poll::Ready(output)) => return Poll::Ready(Stop::Finished(output)),
                Ok(Poll::Pending) => {}
                Err(payload) => return Poll::Ready(Stop::Panicked(payload)),
            }
            if !gave_up && renewing.as_mut().poll(context).is_ready() {
                gave_up = true;
                if !owner.claim.hold {
                    return Poll::Ready(Stop::Lost);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Renews the lease until it is lost; with `tries_on`, until another attempt owns or settled the record.
    pub(super) async fn keep_lease(&self, owner: &Owner, tries_on: bool) {
        loop {
            let now = clock::now();
            let (due, left) = owner.fence(|fence| (fence.renewal_due(now), fence.left(now)));
            if left.is_zero() {
                owner.attempt.lose();
                if !tries_on {
                    return;
                }
            }
            // Nothing here outlasts the fence, or the work would be stopped late.
            let (step, within) = (
                owner.claim.lease / 12,
                |left: Duration, most: Duration| {
                    if left.is_zero() { most } else { left.min(most) }
                },
            );
            let Some(due) = due else {
                sleep(within(left, owner.claim.lease)).await;
                continue;
            };
            sleep(due.max(Duration::from_millis(1))).await;
            let sent = clock::now();
            // A task of its own: this loop is dropped when the work ends, the call must not be.
            let call = tokio::spawn(self.renew(&owner.claim));
            match timeout(within(owner.fence(|fence| fence.left(sent)), step.max(self.store_timeout)), call).await {
                Ok(Ok(Ok(Ack::Done))) => {
                    owner.fence(|fence| fence.prove(sent));
                    continue;
                }
                Ok(Ok(Ok(Ack::Lost))) => return owner.attempt.lose(),
                Ok(Ok(Err(error))) => telemetry::store_failed("renew", &owner.claim.id, &error),
                // A store that panics, or is late.
                Ok(Err(_)) | Err(_) => {}
            }
            let left = owner.fence(|fence| fence.left(clock::now()));
            if tries_on || !left.is_zero() {
                sleep(within(left, step)).await;
            }
        }
    }
}
