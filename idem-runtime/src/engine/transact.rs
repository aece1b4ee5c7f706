//! The run of a work whose record commits with its own writes: one transaction from the claim to the completion.
//!
//! No lease is kept: the store's transaction is the claim, and it ends with its connection. All of it is in a task that
//! the caller can't cancel.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tracing::Instrument as _;

use super::{
    AttemptCell, Close, Engine, Job, Verdict, Work, Written,
    attempt::Started,
    calls::{Call, End, bounded},
    claim::{Step, joined},
    run::Ran,
};
use crate::{
    protocol::{Ack, Claim},
    store::{Begun, Claimed, Completion, NotCommitted, OpenTransaction, StoreError},
    telemetry::{self, Operation, Outcome, Stopwatch},
};

impl Engine {
    /// Claims in a new transaction, and runs in it as the owner.
    pub(super) async fn transact<W: Work>(self: &Arc<Self>, job: Box<Job<W>>) -> Step<W> {
        let (engine, busy) = (Arc::clone(self), self.running.busy());
        let run = async move {
            let _busy = busy;
            match bounded(engine.begin(Some(job.claim.clone()), job.claim.lease), engine.store_timeout).await {
                Ok(Begun::Open { epoch, attempt, transaction }) => {
                    engine.doubt(&job.claim.id);
                    let Job { claim, operation, attempt: cell, work, .. } = *job;
                    let cell = cell.unwrap_or_default();
                    cell.start(Started { token: claim.token, epoch, number: attempt });
                    Step::Ran(engine.run_inside(transaction, work, &cell, Some((&claim, &operation))).await)
                }
                Ok(Begun::Refused(claimed)) => Step::Refused(claimed, job),
                Err(error) => Step::Failed(error, job),
            }
        };
        joined(tokio::spawn(run.in_current_span())).await
    }

    /// Runs the work in a transaction without a record, for requests that are not guarded.
    pub(crate) async fn transact_unrecorded<W: Work>(
        self: &Arc<Self>,
        work: W,
        cell: Arc<AttemptCell>,
        idle: Duration,
    ) -> Result<Verdict<W>, StoreError> {
        let (engine, busy) = (Arc::clone(self), self.running.busy());
        let run = async move {
            let _busy = busy;
            match bounded(engine.begin(None, idle), engine.store_timeout).await {
                Ok(Begun::Open { transaction, .. }) => Ok(engine.run_inside(transaction, work, &cell, None).await),
                Ok(Begun::Refused(_)) => Err(StoreError::fault("a claim that nobody made was refused")),
                Err(error) => Err(error),
            }
        };
        joined(tokio::spawn(run.in_current_span())).await.map(Into::into)
    }

    fn begin(&self, claim: Option<Claim>, idle: Duration) -> Call<Begun> {
        let (store, began) = (Arc::clone(&self.store), Stopwatch::start());
        Box::pin(async move {
            let Some(transactions) = store.dyn_transactional() else {
                return Err(StoreError::fault("the store has no transactions"));
            };
            let result = transactions.begin(claim.as_ref(), idle).await;
            began.store_time("begin", store.dyn_name(), result.is_err());
            result
        })
    }

    async fn run_inside<W: Work>(
        self: &Arc<Self>,
        transaction: Box<dyn OpenTransaction>,
        work: W,
        cell: &AttemptCell,
        recorded: Option<(&Claim, &Operation)>,
    ) -> Ran<W::Reply> {
        let running = self.running.enter();
        let claim = recorded.map(|(claim, _)| claim);
        let handover = cell.handover();
        handover.open(transaction);
        let began = Stopwatch::start();
        let written = caught(work.transact()).await;
        if let Some((_, operation)) = recorded {
            began.handler_time(operation);
        }
        let transaction = handover.close();
        let returned = transaction.is_some();
        let (ran, outcome) = match written {
            Err(payload) => {
                self.undo(transaction).await;
                (Ran::Panicked(payload), Outcome::Released)
            }
            Ok(Written { reply, close: Close::Commit(outcome), .. }) => {
                let completion = claim.map(|claim| completion(claim, cell, outcome));
                match self.commit(transaction, completion).await {
                    Ok(()) => {
                        self.spawn_hooks(cell);
                        let number = cell.started().map_or(1, |started| started.number);
                        (Ran::Reply(reply), if number > 1 { Outcome::Takeover } else { Outcome::Executed })
                    }
                    Err(error) => {
                        // What came after its end may have committed by itself, so nobody knows what is done.
                        if returned && matches!(error, NotCommitted::Ended) {
                            self.record(Close::Hold, claim, cell).await;
                        }
                        not_committed(error, claim)
                    }
                }
            }
            Ok(Written { reply, close, failed }) => {
                let broken = self.undo(transaction).await;
                if broken && failed {
                    not_committed(NotCommitted::RolledBack("a statement of the handler failed".into()), claim)
                } else {
                    // An answer that a failed statement gave is never kept: it may be a conflict in disguise.
                    let kept = !broken && self.record(close, claim, cell).await;
                    (Ran::Reply(reply), if kept { Outcome::Executed } else { Outcome::Released })
                }
            }
        };
        drop(running);
        if let Some((claim, operation)) = recorded {
            telemetry::outcome(outcome, operation, Some(&claim.id));
            self.waiters.wake(&claim.id);
        }
        ran
    }

    async fn commit(
        &self,
        transaction: Option<Box<dyn OpenTransaction>>,
        completion: Option<Completion>,
    ) -> Result<(), NotCommitted> {
        let Some(transaction) = transaction else { return Err(NotCommitted::Ended) };
        let (store, began) = (self.store.dyn_name(), Stopwatch::start());
        let call: Call<Result<(), NotCommitted>> = Box::pin(async move { Ok(transaction.commit(completion).await) });
        let result =
            bounded(call, self.store_timeout).await.unwrap_or_else(|late| Err(NotCommitted::Unknown(late.into())));
        began.store_time("commit", store, result.is_err());
        result
    }

    /// Rolls back; says whether the transaction had failed before, or its end is not known.
    async fn undo(&self, transaction: Option<Box<dyn OpenTransaction>>) -> bool {
        let Some(transaction) = transaction else { return false };
        let call: Call<bool> = Box::pin(async move { Ok(transaction.rollback().await) });
        bounded(call, self.store_timeout).await.unwrap_or(true)
    }

    /// Records what is to be kept of an answer whose writes are undone; says whether an outcome was stored. Where it is
    /// not, the key is free: a retry finds nothing done and does it again.
    async fn record(&self, close: Close, claim: Option<&Claim>, cell: &AttemptCell) -> bool {
        let Some(claim) = claim else { return false };
        let result = match close {
            Close::Record(outcome) => {
                bounded(self.end(claim, &End::Complete(completion(claim, cell, outcome))), self.store_timeout).await
            }
            Close::Hold => {
                let claim = Claim { hold: true, ..claim.clone() };
                match bounded(self.claim_once(&claim), self.store_timeout).await {
                    Ok(Claimed::Owner { .. }) => bounded(self.end(&claim, &End::Hold), self.store_timeout).await,
                    Ok(_) => Ok(Ack::Lost),
                    Err(error) => Err(error),
                }
            }
            Close::Commit(_) | Close::Forget => return false,
        };
        if let Err(error) = &result {
            telemetry::store_failed("record", &claim.id, error);
        }
        matches!(result, Ok(Ack::Done))
    }

    fn spawn_hooks(self: &Arc<Self>, cell: &AttemptCell) {
        for hook in cell.handover().hooks() {
            let busy = self.running.busy();
            tokio::spawn(
                async move {
                    let _busy = busy;
                    hook.await;
                }
                .in_current_span(),
            );
        }
    }
}

fn completion(claim: &Claim, cell: &AttemptCell, outcome: bytes::Bytes) -> Completion {
    let (epoch, attempt) = cell.started().map_or((0, 1), |started| (started.epoch, started.number));
    let Claim { id, token, fingerprint, ttl, .. } = *claim;
    Completion { id, token, epoch, attempt, fingerprint, ttl, outcome }
}

fn not_committed<T>(error: NotCommitted, claim: Option<&Claim>) -> (Ran<T>, Outcome) {
    telemetry::not_committed(claim.map(|claim| &claim.id), &error);
    let outcome = match error {
        NotCommitted::Unknown(_) => Outcome::CommitUnknown,
        NotCommitted::RolledBack(_) | NotCommitted::Refused(_) | NotCommitted::Ended => Outcome::RolledBack,
    };
    (Ran::NotCommitted(error), outcome)
}

/// The work's end, or its panic; the work is gone by then, and what it borrowed is back.
async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(payload) => Poll::Ready(Err(payload)),
    })
    .await
}
