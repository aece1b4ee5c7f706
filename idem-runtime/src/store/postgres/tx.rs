//! What a handler, or a consumer of messages, writes in.

use std::{
    any::Any,
    fmt,
    future::Future,
    ops::{Deref, DerefMut},
    sync::OnceLock,
    time::Duration,
};

use sqlx::{Connection as _, Postgres, Transaction, postgres::PgConnection};

use super::{
    PostgresStore,
    call::{Trouble, ask},
    ms,
    simple::Arg,
    transaction::Open,
};
use crate::{
    http::Loan,
    protocol::{Fingerprint, RecordId, Token},
    store::StoreError,
};

/// The transaction that the handler's record commits in: having it as a parameter makes a handler's effects in this
/// database happen exactly once.
///
/// ```
/// use axum::{Json, http::StatusCode};
/// use idem_runtime::{idempotent, store::postgres::Tx};
///
/// # fn internal(_: sqlx::Error) -> StatusCode { StatusCode::INTERNAL_SERVER_ERROR }
/// #[idempotent(ttl = "24h")]
/// async fn create_payment(mut tx: Tx, Json(cents): Json<i64>) -> Result<(StatusCode, Json<i64>), StatusCode> {
///     let id = sqlx::query_scalar("INSERT INTO payments (cents) VALUES ($1) RETURNING id")
///         .bind(cents)
///         .fetch_one(&mut *tx)
///         .await
///         .map_err(internal)?;
///     Ok((StatusCode::CREATED, Json(id)))
/// }
/// ```
///
/// The claim, the handler's statements and the stored answer are one transaction on one connection of the pool that the
/// [`PostgresStore`] was made with. It begins before the handler does and ends after it:
///
/// * 2xx, 3xx and any answer with [`Settle::Keep`](crate::Settle::Keep) commit, and are always recorded. Any other answer,
///   [`Settle::Release`](crate::Settle::Release) and [`Settle::Hold`](crate::Settle::Hold) undo everything that was
///   written. A 4xx that the `record` option keeps is then recorded by a statement of its own.
/// * A panic, a process that dies and a connection that breaks undo everything, and the key is free at once.
/// * A serialization failure, a deadlock, a lock that was not to be had and a connection that breaks are a 503
///   `idempotency_rolled_back` with `Retry-After`, also where the handler answers 5xx because one of its statements failed.
///   After a statement that failed no answer is kept; a 2xx is then a 503 too: use a [savepoint](Self::begin) round what
///   may fail. [`is_conflict`](super::is_conflict) tells an error of these kinds.
/// * A COMMIT whose answer is lost is a 503 `idempotency_commit_unknown`; a retry gets the answer if it was committed.
/// * The answer's body is read before the COMMIT: what is larger than `max_response`, or takes longer than half
///   the lease, leaves a tombstone.
///
/// There is no lease to renew. The `lease` option is sent as `idle_in_transaction_session_timeout`: the server ends a
/// transaction whose handler lets it lie idle for longer, so that a machine that vanished frees its keys. For a server that
/// computes while the client vanishes, set `client_connection_check_interval`.
///
/// A duplicate that comes meanwhile gets 409 or waits, without a connection in hand. Its body can't be compared with that
/// of a row that nobody can see yet: another body is a 409 while the handler runs, and a 422 afterwards.
///
/// The isolation level is the session's `default_transaction_isolation`. A handler has one `Tx`, and none with
/// `unknown = hold`: nothing is left unknown. A handler that takes a second connection from the same pool while it has a
/// `Tx` may wait for ever once the pool is empty.
///
/// Where the request is not guarded (`optional` without a key, a safe method) it is a transaction without a record.
///
/// # Panics
///
/// Using it panics in a handler that is not annotated with `#[idempotent]`, after its handler's run, and after a
/// [savepoint](Self::begin) that could not begin: there is no transaction.
pub struct Tx {
    loan: Loan,
    /// Taken at the first use, which is when the transaction has begun.
    open: OnceLock<Box<Open>>,
}

impl Tx {
    pub(crate) fn new(loan: Loan) -> Self {
        Self { loan, open: OnceLock::new() }
    }

    /// Begins a savepoint: what is done in it can be undone, and may fail, by itself.
    ///
    /// ```
    /// # use idem_runtime::store::postgres::Tx;
    /// # async fn handler(mut tx: Tx) -> Result<(), sqlx::Error> {
    /// let mut savepoint = tx.begin().await?;
    /// let added = sqlx::query("INSERT INTO tags (name) VALUES ('new')").execute(&mut *savepoint).await;
    /// match added {
    ///     Ok(_) => savepoint.commit().await?,
    ///     Err(_) => savepoint.rollback().await?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Each is ended by `commit` or `rollback`, or dropped. One that can't begin, because a statement has failed before it, or whose `begin`
    /// is dropped half-way (a `timeout` round it), ends the whole transaction: everything is undone, using the `Tx` after it panics, and no
    /// answer commits.
    pub async fn begin(&mut self) -> Result<Transaction<'_, Postgres>, sqlx::Error> {
        (**self).begin().await
    }

    /// Runs `effect` once the commit is known, in a task of its own; never if it isn't.
    ///
    /// **At most once**: a process that dies between the commit and the effect loses it, and so does a commit whose answer
    /// is lost. For at least once write what is to be done in the same transaction, and have a worker do and delete it:
    ///
    /// ```sql
    /// CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, message jsonb NOT NULL);
    /// -- the handler:
    /// INSERT INTO outbox (message) VALUES ('{"mail": "receipt", "payment": 7}');
    /// -- the worker, in a transaction: takes one, sends it, deletes it; after a crash it is sent again
    /// DELETE FROM outbox WHERE id = (SELECT id FROM outbox ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING message;
    /// ```
    ///
    /// [`Idempotency::drain`](crate::Idempotency::drain) waits for the effect.
    pub fn after_commit(&self, effect: impl Future<Output = ()> + Send + 'static) {
        self.loan.after_commit(effect);
    }

    #[expect(clippy::panic, reason = "documented: nothing else can be said where a reference is due")]
    fn open(&self) -> &Open {
        self.open.get_or_init(|| {
            let lent: Option<Box<dyn Any + Send>> = self.loan.take().map(|lent| lent as Box<dyn Any + Send>);
            lent.and_then(|lent| lent.downcast().ok())
                .unwrap_or_else(|| panic!("`Tx` is used outside the run of a handler annotated with #[idempotent]"))
        })
    }
}

impl Deref for Tx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.open().transaction
    }
}

impl DerefMut for Tx {
    #[expect(clippy::panic, reason = "`open` has filled it")]
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.open();
        match self.open.get_mut() {
            // sqlx rolls all of it back when a savepoint can't begin; what came next would commit by itself.
            Some(open) if !open.transaction.is_in_transaction() => {
                panic!("`Tx` is used after its transaction has ended: a savepoint could not begin")
            }
            Some(open) => &mut open.transaction,
            None => panic!("`Tx` is used outside the run of a handler annotated with #[idempotent]"),
        }
    }
}

impl AsMut<PgConnection> for Tx {
    fn as_mut(&mut self) -> &mut PgConnection {
        self
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            self.loan.give_back(open);
        }
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").field("used", &self.open.get().is_some()).finish_non_exhaustive()
    }
}

/// Whether a consumer is the first to do something; see [`Idempotency::once_in`](crate::Idempotency::once_in).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Delivery {
    /// It is, if its transaction commits.
    First,
    /// It was done before, and that is committed.
    Repeated,
    /// Another transaction does it right now, or a held record is in the way: roll back, and take the message again later.
    Busy,
}

impl PostgresStore {
    pub(crate) async fn once_in(
        &self,
        connection: &mut PgConnection,
        id: &RecordId,
        token: &Token,
        ttl: Duration,
    ) -> Result<Delivery, StoreError> {
        // There is no request to compare.
        let fingerprint = Fingerprint::from_bytes([0; Fingerprint::LENGTH]);
        let args = [Arg::Bytes(token.as_bytes()), Arg::Bytes(fingerprint.as_bytes()), Arg::Int(ms(ttl))];
        let reply = ask(&self.caller.calls, connection, &self.statements.once, id, &args, !self.simple).await?;
        match reply.get::<String>(0)?.as_deref() {
            Some("first") => Ok(Delivery::First),
            Some("repeated") => Ok(Delivery::Repeated),
            Some("busy") => Ok(Delivery::Busy),
            _ => Err(Trouble::ForeignReply.into()),
        }
    }
}
