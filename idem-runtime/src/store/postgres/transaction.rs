//! The record in the handler's own transaction: BEGIN, the claim, and after the handler the completion and COMMIT.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use sqlx::{AssertSqlSafe, Connection as _, Postgres, Transaction, postgres::PgConnection, raw_sql};
use tokio::time::{Instant, sleep};

use super::{
    PostgresStore,
    call::{ATTEMPTS, RETRY_WINDOW, Remedy, Trouble, ask, jitter},
    ms, read_claimed,
    simple::Arg,
    statements::Statement,
};
use crate::store::{
    Begun, Claim, Claimed, Completion, NotCommitted, OpenTransaction, Promise, StoreError, Transactional,
};

/// Whether an error of a statement says that transactions got in each other's way, or that the connection is gone: the
/// same request may well succeed when it is sent again, so it must not be answered as a lasting error.
///
/// SQLSTATE 40001, 40P01, 55P03; connections that broke, server shutdown, and a transaction that was idle for too long.
pub fn is_conflict(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            is_passing(&code)
        }
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => true,
        _ => false,
    }
}

/// Refusals that running again may get past: conflicts, broken connections, too few resources, the operator.
fn is_passing(code: &str) -> bool {
    ["08", "40", "53", "57", "58"].iter().any(|class| code.starts_with(class))
        || matches!(code, "55P03" | "25P02" | "25P03")
}

/// What the handler's transaction parameter works with.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) transaction: Transaction<'static, Postgres>,
    calls: Arc<AtomicU64>,
    complete: Statement,
    cached: bool,
    /// The server's number of the transaction that the claim is in, and where in the table its row is.
    claimed: (i64, String),
}

impl PostgresStore {
    async fn try_begin(&self, claim: Option<&Claim>, idle: Duration) -> Result<Result<Begun, StoreError>, Trouble> {
        // The server's largest is 24 days.
        let idle = i32::try_from(idle.as_millis()).unwrap_or(i32::MAX).max(1);
        let begin = format!("BEGIN; SET LOCAL idle_in_transaction_session_timeout = {idle}");
        let mut transaction = self.pool.begin_with(AssertSqlSafe(begin)).await?;
        let cached = !self.simple;
        let (calls, complete) = (Arc::clone(&self.caller.calls), self.statements.tx_complete.clone());
        let Some(claim) = claim else {
            let open = Open { transaction, calls, complete, cached, claimed: (0, String::new()) };
            return Ok(Ok(Begun::Open { epoch: 0, attempt: 1, transaction: Box::new(open) }));
        };
        let answer = self.claim_inside(&mut transaction, claim, cached).await;
        let (epoch, attempt, claimed) = match answer {
            Ok((Ok(Claimed::Owner { epoch, attempt }), Some(claimed))) => (epoch, attempt, claimed),
            Ok((Ok(Claimed::Owner { .. }), None)) => return Err(Trouble::ForeignReply),
            Ok((answer, _)) => {
                // Told by the caller after this: the lock is free by then.
                transaction.rollback().await?;
                return Ok(answer.map(Begun::Refused));
            }
            Err(trouble) => {
                let _ = transaction.rollback().await;
                return Err(trouble);
            }
        };
        let open = Open { transaction, calls, complete, cached, claimed };
        Ok(Ok(Begun::Open { epoch, attempt, transaction: Box::new(open) }))
    }

    async fn claim_inside(
        &self,
        connection: &mut PgConnection,
        claim: &Claim,
        cached: bool,
    ) -> Result<(Result<Claimed, StoreError>, Option<(i64, String)>), Trouble> {
        let mut fingerprints: Vec<&[u8]> = vec![claim.fingerprint.as_bytes()];
        fingerprints.extend(claim.older_fingerprints.iter().map(|older| older.as_bytes().as_slice()));
        let args = [
            Arg::Bytes(claim.token.as_bytes()),
            Arg::List(&fingerprints),
            Arg::Int(ms(claim.lease)),
            Arg::Int(ms(claim.ttl)),
        ];
        let reply = ask(&self.caller.calls, connection, &self.statements.tx_claim, &claim.id, &args, cached).await?;
        match reply.get::<String>(0)?.as_deref() {
            Some("stale") => Err(Trouble::InTransaction),
            Some("again") => Err(Trouble::Contended),
            _ => Ok((read_claimed(&reply), reply.get(5)?.zip(reply.get(6)?))),
        }
    }
}

impl Transactional for PostgresStore {
    fn begin<'a>(&'a self, claim: Option<&'a Claim>, idle: Duration) -> Promise<'a, Result<Begun, StoreError>> {
        Box::pin(async move {
            let started = Instant::now();
            let (mut attempt, mut lost) = (0, false);
            loop {
                attempt += 1;
                // Nothing has run yet, so any of these may simply be done again.
                let (answer, pause) = match self.try_begin(claim, idle).await {
                    // It may be our own claim, on a connection of which the server does not know yet that it is gone.
                    Ok(Ok(refused @ Begun::Refused(Claimed::InProgress { lease_left: None }))) if lost => {
                        (Ok(refused), jitter(attempt))
                    }
                    Ok(answer) => return answer,
                    Err(trouble) => match trouble.remedy() {
                        Remedy::Report => return Err(trouble.into()),
                        Remedy::Again => (Err(trouble.into()), jitter(attempt)),
                        Remedy::Elsewhere => {
                            lost = true;
                            if trouble.is_aborted() {
                                self.heal().await;
                            }
                            (Err(trouble.into()), jitter(attempt / 3))
                        }
                    },
                };
                if attempt >= ATTEMPTS || started.elapsed() + pause > RETRY_WINDOW {
                    return answer;
                }
                sleep(pause).await;
            }
        })
    }
}

impl PostgresStore {
    /// Ends what somebody's dropped `begin()` may have left behind in a pooled connection.
    async fn heal(&self) {
        if let Ok(mut connection) = self.pool.acquire().await {
            // Where there is nothing to roll back this is a warning in the server's log.
            let _ = raw_sql("ROLLBACK").execute(&mut *connection).await;
        }
    }
}

impl Open {
    async fn complete(&mut self, completion: &Completion) -> Result<Completed, NotCommitted> {
        let (xact, place) = &self.claimed;
        let args = [
            Arg::Bytes(completion.token.as_bytes()),
            Arg::Int(*xact),
            Arg::Text(place),
            Arg::Int(ms(completion.ttl)),
            Arg::Bytes(&completion.outcome),
        ];
        // A COMMIT of a failed transaction reports no error: this row, which only a sound one gives, must come first.
        let reply = ask(&self.calls, &mut self.transaction, &self.complete, &completion.id, &args, self.cached).await;
        match reply.and_then(|reply| reply.get::<String>(0)).map_err(undone)? {
            Some(ack) if ack == "done" => Ok(Completed::Written),
            Some(ack) if ack == "ended" => Err(NotCommitted::Ended),
            // One that was rolled back stays open on the server. One that was forgotten is open for sqlx too, whose COMMIT
            // would only release it; the server's ends all, and the connection is then none for the pool.
            Some(ack) if ack == "nested" => {
                match raw_sql("COMMIT; BEGIN").execute(&mut *self.transaction).await.map_err(Trouble::from) {
                    Ok(_) => Ok(Completed::Committed),
                    Err(trouble) => Err(not_committed(trouble)),
                }
            }
            _ => Err(NotCommitted::RolledBack(Trouble::ForeignReply.into())),
        }
    }

    /// Whether the transaction can still commit, where no completion says it.
    async fn is_sound(&mut self) -> Result<(), Trouble> {
        raw_sql("SELECT 1").execute(&mut *self.transaction).await?;
        Ok(())
    }
}

impl OpenTransaction for Open {
    fn commit(mut self: Box<Self>, completion: Option<Completion>) -> Promise<'static, Result<(), NotCommitted>> {
        Box::pin(async move {
            let completed = match &completion {
                Some(completion) => self.complete(completion).await,
                None => self.is_sound().await.map(|()| Completed::Written).map_err(undone),
            };
            match completed {
                Ok(Completed::Written) => self.transaction.commit().await.map_err(|error| not_committed(error.into())),
                Ok(Completed::Committed) => {
                    let _ = self.transaction.commit().await;
                    Ok(())
                }
                Err(error) => {
                    let _ = self.transaction.rollback().await;
                    Err(error)
                }
            }
        })
    }

    fn rollback(mut self: Box<Self>) -> Promise<'static, bool> {
        Box::pin(async move {
            let failed = !self.transaction.is_in_transaction() || self.is_sound().await.is_err();
            failed | self.transaction.rollback().await.is_err()
        })
    }
}

/// How far a completion has come.
enum Completed {
    Written,
    Committed,
}

/// What an error of COMMIT means. A server's is an answer: all is rolled back. Any other may come after the commit.
fn not_committed(trouble: Trouble) -> NotCommitted {
    match trouble {
        Trouble::Server { fatal: false, .. } => undone(trouble),
        _ => NotCommitted::Unknown(trouble.into()),
    }
}

/// What a server's refusal before the end of a COMMIT means: all is undone, and sending it again may help or not.
fn undone(trouble: Trouble) -> NotCommitted {
    match &trouble {
        Trouble::Server { code, fatal: false, .. } if !is_passing(code) => NotCommitted::Refused(trouble.into()),
        _ => NotCommitted::RolledBack(trouble.into()),
    }
}
