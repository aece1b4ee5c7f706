//! The owner's run: the work, kept inside its lease.

use std::{
    any::Any,
    future::{Future, poll_fn, ready},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing::Instrument as _;

use super::{Answer, Engine, Job, Seen, Settle, Settled, Work, attempt::Started, calls::End, clock, running::RunGuard};
use crate::{
    protocol::{Ack, Claim, Fence, Reading},
    store::{Completion, NotCommitted},
    telemetry::{self, Operation, Outcome, Stopwatch},
};

/// How an owner's run ended, for its caller.
pub(super) enum Ran<T> {
    Reply(T),
    Panicked(Box<dyn Any + Send>),
    LeaseLost,
    /// It ran in a transaction, which did not commit or may not have.
    NotCommitted(NotCommitted),
    /// It had run before, and the store had not heard of it yet.
    Before(Bytes, Seen),
}

/// What a start led to.
pub(super) enum Begun<T> {
    Over(Ran<T>),
    /// The rest is in a task that the caller can't cancel.
    Goes(JoinHandle<Ran<T>>),
}

/// A work that has an owner.
struct Run<W> {
    owner: Owner,
    work: W,
    began: Stopwatch,
}

/// What is left to do when a work has stopped.
#[expect(clippy::large_enum_variant, reason = "it is passed on at once")]
enum Left<T> {
    Nothing(Ran<T>),
    /// To tell the store so, and then the caller.
    Settle(Owner, End, Ran<T>),
}

/// A run that has started: what is needed to settle it.
pub(super) struct Owner {
    pub(super) claim: Claim,
    pub(super) operation: Operation,
    pub(super) epoch: u64,
    pub(super) number: u32,
    attempt: Option<Arc<super::AttemptCell>>,
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

    /// Tells the work that it can't be proved to be the only one any more.
    fn lose(&self) {
        if let Some(attempt) = &self.attempt {
            attempt.lose();
        }
    }
}

/// Why the work stopped.
enum Stop<T> {
    Finished(T),
    Panicked(Box<dyn Any + Send>),
    Lost,
}

/// One turn of a work. Its panic goes on to the caller once the record is settled, so nobody sees a half-updated state.
fn turn<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>, context: &mut Context<'_>) -> Poll<Stop<T>> {
    match catch_unwind(AssertUnwindSafe(|| poll(context))) {
        Ok(turn) => turn.map(Stop::Finished),
        Err(payload) => Poll::Ready(Stop::Panicked(payload)),
    }
}

impl Engine {
    /// Takes the first turn of the work in the caller's own poll, which nobody can cancel, and the rest in a task: most
    /// handlers of a store at hand need no task, and no thread has to be woken for one.
    ///
    /// The work's first turn has the caller's waker, task and task-locals; a future takes the waker of its latest poll, and
    /// the task polls once when it starts. A panic is caught here as there, and the budget that tokio gives a task is the
    /// caller's.
    pub(super) fn start<W: Work>(
        self: &Arc<Self>,
        job: Job<W>,
        sent: Reading,
        names: (u64, u32),
        context: &mut Context<'_>,
    ) -> Begun<W::Reply> {
        let mut run = match self.own(job, sent, names) {
            Ok(run) => run,
            Err(ran) => return Begun::Over(ran),
        };
        let Poll::Ready(stop) = turn(|context| run.work.poll(context), context) else {
            return Begun::Goes(tokio::spawn(Arc::clone(self).go_on(run).in_current_span()));
        };
        let Run { owner, work, began } = run;
        drop(work);
        match (self.left(owner, began, stop), self.store.dyn_immediate()) {
            (Left::Nothing(ran), _) => Begun::Over(ran),
            (Left::Settle(owner, end, ran), Some(store)) => {
                self.settle_at_once(store, owner, end);
                Begun::Over(ran)
            }
            (left, None) => Begun::Goes(tokio::spawn(Arc::clone(self).finish(left).in_current_span())),
        }
    }

    /// Runs the work and settles the record, in a task that nobody cancels. The claim that made us the owner was sent at
    /// `sent`, and gave this epoch and number.
    pub(super) async fn run<W: Work>(
        self: Arc<Self>,
        job: Box<Job<W>>,
        sent: Reading,
        names: (u64, u32),
    ) -> Ran<W::Reply> {
        match self.own(*job, sent, names) {
            Ok(run) => self.go_on(run).await,
            Err(ran) => ran,
        }
    }

    /// Makes the job's work a run, unless it must not start.
    fn own<W: Work>(
        self: &Arc<Self>,
        job: Job<W>,
        sent: Reading,
        (epoch, number): (u64, u32),
    ) -> Result<Run<W>, Ran<W::Reply>> {
        // The store knew of no outcome.
        self.doubt(&job.claim.id);
        let Job { claim, operation, attempt, work, .. } = job;
        if let Some(attempt) = &attempt {
            attempt.start(Started { token: claim.token, epoch, number });
        }
        let lease = Mutex::new(Fence::new(claim.lease, sent, claim.ttl));
        let owner = Owner { claim, operation, epoch, number, attempt, lease, running: self.running.enter() };
        if let Some((fingerprint, outcome)) = self.pending.get(&owner.claim.id)
            && owner.claim.matches(&fingerprint)
        {
            // This claim overtook the completion: it carries the outcome itself.
            let (engine, end) = (Arc::clone(self), owner.completion(outcome.clone()));
            let seen = Seen { operation: owner.operation.clone(), id: owner.claim.id };
            tokio::spawn(async move { engine.end_eventually(&owner.claim, end).await });
            return Err(Ran::Before(outcome, seen));
        }
        if owner.is_lost() {
            return Err(self.lose(owner));
        }
        Ok(Run { owner, work, began: Stopwatch::start() })
    }

    async fn go_on<W: Work>(self: Arc<Self>, run: Run<W>) -> Ran<W::Reply> {
        let Run { owner, mut work, began } = run;
        let stop = self.drive(&owner, poll_fn(|context| work.poll(context))).await;
        // Before anybody may run again.
        drop(work);
        let left = self.left(owner, began, stop);
        self.finish(left).await
    }

    /// What a work that has stopped leaves to do.
    fn left<T>(self: &Arc<Self>, owner: Owner, began: Stopwatch, stop: Stop<Answer<T>>) -> Left<T> {
        if !matches!(stop, Stop::Finished(Answer { settle: Settle::HandOver, .. })) {
            began.handler_time(&owner.operation);
        }
        match stop {
            Stop::Lost => Left::Nothing(self.lose(owner)),
            Stop::Panicked(payload) => {
                let end = if owner.claim.hold { End::Hold } else { End::Release };
                Left::Settle(owner, end, Ran::Panicked(payload))
            }
            Stop::Finished(Answer { reply, settle }) => {
                let end = match settle {
                    Settle::Keep(outcome) => owner.completion(outcome),
                    Settle::Release => End::Release,
                    Settle::Hold => End::Hold,
                    Settle::HandOver => End::HandOver,
                    Settle::Later { cut, copy } => {
                        tokio::spawn(Arc::clone(self).settle_later(owner, cut, copy).in_current_span());
                        return Left::Nothing(Ran::Reply(reply));
                    }
                };
                Left::Settle(owner, end, Ran::Reply(reply))
            }
        }
    }

    async fn finish<T>(self: Arc<Self>, left: Left<T>) -> Ran<T> {
        match left {
            Left::Nothing(ran) => ran,
            Left::Settle(owner, end, ran) => {
                self.settle(owner, end).await;
                ran
            }
        }
    }

    /// A run that was stopped, or never started: the key is free as soon as the store hears of it.
    fn lose<T>(self: &Arc<Self>, owner: Owner) -> Ran<T> {
        owner.lose();
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
            if let Poll::Ready(stop) = turn(|context| work.as_mut().poll(context), context) {
                return Poll::Ready(stop);
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
                owner.lose();
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
                Ok(Ok(Ok(Ack::Lost))) => return owner.lose(),
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
