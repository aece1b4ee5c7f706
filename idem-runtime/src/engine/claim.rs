//! The claim, and the wait of a duplicate for the attempt that runs.

use std::{
    future::{Ready, ready},
    panic::resume_unwind,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};

use super::{
    Engine, Job, Verdict, Work,
    asking::{Asked, Asking},
    calls::{Call, at_once, late},
    clock,
    run::{Begun, Ran},
    waiters::Waiter,
};
use crate::{
    protocol::{Claim, Reading, State},
    store::{Claimed, Immediate, StoreError},
    telemetry::{self, Outcome, Stopwatch},
};

/// Pauses before a failed claim is tried again. The same token claims, so a claim that was made unheard is recognised.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(100)];
/// How long a waiting duplicate goes without looking, at first and at most; wake-ups come between.
const LOOK: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(250)];

/// What one claim of a job led to.
pub(super) enum Step<W: Work> {
    Ran(Ran<W::Reply>),
    Refused(Claimed, Box<Job<W>>),
    Failed(StoreError, Box<Job<W>>),
}

impl Engine {
    /// Runs the job's work if this caller becomes the owner; says what else there is otherwise.
    ///
    /// Dropping the returned future stops a duplicate's waiting, and nothing else: work that has started ends and is
    /// settled.
    pub(crate) async fn guard<W: Work>(self: &Arc<Self>, mut job: Box<Job<W>>) -> Verdict<W> {
        self.listen();
        let deadline = (!job.wait.is_zero()).then(|| Instant::now() + job.wait);
        let mut waiter: Option<Waiter> = None;
        let mut look = LOOK[0];
        loop {
            // Asked for before the claim, so that a settlement between the two wakes us.
            let woken = waiter.as_ref().map(Waiter::next);
            if let Some((fingerprint, outcome)) = self.at_hand(&job.claim.id) {
                if job.claim.matches(&fingerprint) {
                    return Verdict::Replay { outcome, waited: waiter.is_some(), seen: job.seen() };
                }
                telemetry::outcome(Outcome::Mismatch, &job.operation, Some(&job.claim.id));
                let stored = Bytes::copy_from_slice(fingerprint.as_bytes());
                return Verdict::Mismatch { own: job.claim.fingerprint, stored };
            }
            let (claimed, back) = match self.step(job).await {
                Step::Ran(Ran::Before(outcome, seen)) => {
                    return Verdict::Replay { outcome, waited: waiter.is_some(), seen };
                }
                Step::Ran(ran) => return ran.into(),
                Step::Refused(claimed, job) => (claimed, job),
                Step::Failed(error, job) => {
                    telemetry::store_failed("claim", &job.claim.id, &error);
                    return Verdict::Unavailable(error, job);
                }
            };
            job = back;
            match &claimed {
                Claimed::Replay { outcome } => self.learn(&job.claim, outcome),
                _ => self.doubt(&job.claim.id),
            }
            let seen = |outcome| telemetry::outcome(outcome, &job.operation, Some(&job.claim.id));
            let lease_left = match claimed {
                Claimed::InProgress { lease_left } => lease_left,
                Claimed::Replay { outcome } => {
                    return Verdict::Replay { outcome, waited: waiter.is_some(), seen: job.seen() };
                }
                Claimed::Mismatch { stored } => {
                    seen(Outcome::Mismatch);
                    return Verdict::Mismatch { own: job.claim.fingerprint, stored };
                }
                Claimed::Unknown | Claimed::Owner { .. } => {
                    seen(Outcome::Held);
                    return Verdict::Unknown;
                }
            };
            let Some(deadline) = deadline.filter(|deadline| Instant::now() < *deadline) else {
                seen(Outcome::InProgress);
                return Verdict::InProgress { lease_left };
            };
            if let Some(woken) = woken {
                // A lease that lapses wakes nobody.
                let pause = look.min(lease_left.unwrap_or(look)).max(Duration::from_millis(1));
                let _ = timeout_at(deadline.min(Instant::now() + pause), woken).await;
                look = (look * 2).min(LOOK[1]);
            } else {
                waiter = self.waiters.join(job.claim.id);
                job.claim.waiting = true;
                if waiter.is_none() {
                    seen(Outcome::InProgress);
                    return Verdict::InProgress { lease_left };
                }
            }
        }
    }

    /// Claims, and runs as the owner. A caller that goes away while it waits leaves the rest to a task.
    async fn step<W: Work>(self: &Arc<Self>, job: Box<Job<W>>) -> Step<W> {
        if job.is_transaction() {
            return self.transact(job).await;
        }
        let sent = clock::now();
        let call = match self.store.dyn_immediate().map(|store| self.claim_at_once(store, &job.claim)) {
            Some(Ok(claimed)) => return self.asked(Asked { job, claimed: Ok(claimed), sent, busy: None }).await,
            Some(Err(error)) => Box::pin(ready(Err(error))),
            None => self.claim_once(&job.claim),
        };
        let asked = Asking::new(self, job, call, sent).await;
        self.asked(asked).await
    }

    /// Begins the work if the claim is granted.
    async fn asked<W: Work>(self: &Arc<Self>, asked: Asked<W>) -> Step<W> {
        let Asked { job, claimed, sent, busy } = asked;
        match claimed {
            Ok(Claimed::Owner { epoch, attempt }) => {
                let begun = at_once(|context| self.start(*job, sent, (epoch, attempt), context)).await;
                drop(busy);
                match begun {
                    Begun::Over(ran) => Step::Ran(ran),
                    Begun::Goes(task) => Step::Ran(joined(task).await),
                }
            }
            Ok(other) => Step::Refused(other, job),
            Err(error) => Step::Failed(error, job),
        }
    }

    /// Claims, beginning with `call`, until the store answers or its time is over; also says when the answered call was
    /// sent.
    pub(super) async fn claim(
        self: Arc<Self>,
        claim: &Claim,
        mut call: Call<Claimed>,
        mut sent: Reading,
    ) -> (Result<Claimed, StoreError>, Reading) {
        let until = Instant::now() + self.store_timeout;
        let mut pauses = PAUSES.into_iter();
        let mut ambiguous = false;
        loop {
            let Ok(result) = timeout_at(until, &mut call).await else {
                self.abandon(claim.clone(), Some(call));
                return (Err(late(self.store_timeout)), sent);
            };
            let pause = match &result {
                Ok(_) => return (result, sent),
                Err(StoreError::Fault(_)) => {
                    ambiguous = true;
                    pauses.next().filter(|pause| Instant::now() + *pause < until)
                }
                Err(StoreError::Corrupt(_)) => None,
            };
            let Some(pause) = pause else {
                if ambiguous {
                    self.abandon(claim.clone(), None::<Ready<()>>);
                }
                return (result, sent);
            };
            sleep(pause).await;
            sent = clock::now();
            call = self.claim_once(claim);
        }
    }

    /// Brings an outcome that the store gave to hand. Only the store knows how long it keeps the record, so it is asked,
    /// beside the request and once for all that replay it meanwhile.
    fn learn(self: &Arc<Self>, claim: &Claim, outcome: &Bytes) {
        let Some(place) = self.cache.as_ref().and_then(|cache| cache.reserve_vacant(claim.id)) else { return };
        let (store, id, fingerprint, outcome) = (Arc::clone(&self.store), claim.id, claim.fingerprint, outcome.clone());
        tokio::spawn(async move {
            let sent = clock::now();
            if let Ok(Some(record)) = store.dyn_get(&id).await
                && record.state == State::Completed
                && record.outcome.as_ref() == Some(&outcome)
            {
                place.fill(fingerprint, &outcome, sent, record.expires_in);
            }
        });
    }

    pub(super) fn claim_once(&self, claim: &Claim) -> Call<Claimed> {
        let (store, claim, began) = (Arc::clone(&self.store), claim.clone(), Stopwatch::start());
        Box::pin(async move {
            let result = store.dyn_claim(&claim).await;
            began.store_time("claim", store.dyn_name(), result.is_err());
            result
        })
    }

    fn claim_at_once(&self, store: &dyn Immediate, claim: &Claim) -> Result<Claimed, StoreError> {
        let began = Stopwatch::start();
        let result = store.claim_now(claim);
        began.store_time("claim", self.store.dyn_name(), result.is_err());
        result
    }
}

/// What a task came to.
pub(super) async fn joined<T>(task: JoinHandle<T>) -> T {
    match task.await {
        Ok(output) => output,
        Err(failed) if failed.is_panic() => resume_unwind(failed.into_panic()),
        // The runtime is shutting down, and this caller with it.
        Err(_) => std::future::pending().await,
    }
}

impl<W: Work> From<Ran<W::Reply>> for Verdict<W> {
    fn from(ran: Ran<W::Reply>) -> Self {
        match ran {
            Ran::Reply(reply) => Self::Ran(reply),
            Ran::Panicked(payload) => Self::Panicked(payload),
            Ran::LeaseLost => Self::LeaseLost,
            Ran::NotCommitted(error) => Self::NotCommitted(error),
            Ran::Before(outcome, seen) => Self::Replay { outcome, waited: false, seen },
        }
    }
}
