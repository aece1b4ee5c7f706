//! One statement, sent and checked: retries, the time it may take, and whether the reply is ours.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sqlx::{
    AssertSqlSafe, Decode, PgPool, Postgres, Row as _, Type,
    pool::PoolConnection,
    postgres::{PgConnection, PgDatabaseError, PgRow, PgSeverity},
    query, raw_sql,
};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    simple::{Arg, inline},
    statements::Statement,
};
use crate::{
    protocol::RecordId,
    store::{CorruptRecord, StoreError},
};

pub(super) const ATTEMPTS: u32 = 10;
/// How long a call repeats itself over lost races and broken connections.
pub(super) const RETRY_WINDOW: Duration = Duration::from_millis(1500);

/// Why a call failed. Its text holds nothing that a client sent.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server refused, with its SQLSTATE and message; a fatal refusal ends the connection.
    Server { code: String, message: String, fatal: bool },
    /// No connection, or it broke.
    Connection(String),
    /// The pool had none to lend in time.
    NoConnection,
    /// No answer in time; the connection was closed.
    NoAnswer,
    /// The reply belongs to another statement.
    ForeignReply,
    /// The connection was lent in the middle of somebody's transaction.
    InTransaction,
    /// Lost races until the time was over.
    Contended,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A statement that isn't there, is there already, or takes other parameters: a pooler changed servers.
            Self::Server { code, message, .. } if matches!(code.as_str(), "26000" | "42P05" | "08P01") => {
                write!(f, "PostgreSQL: {message} ({code}); behind a transaction pooler use `simple_protocol(true)`")
            }
            Self::Server { code, message, .. } => write!(f, "PostgreSQL: {message} ({code})"),
            Self::Connection(message) => write!(f, "connection to PostgreSQL: {message}"),
            Self::NoConnection => f.write_str("no PostgreSQL connection became free in time"),
            Self::NoAnswer => f.write_str("PostgreSQL did not answer in time"),
            Self::ForeignReply => f.write_str(
                "PostgreSQL's reply belongs to another statement; behind a transaction pooler use `simple_protocol(true)`",
            ),
            Self::InTransaction => f.write_str("the pool lent a connection inside an open transaction"),
            Self::Contended => f.write_str("PostgreSQL kept reporting conflicts between transactions"),
        }
    }
}

impl std::error::Error for Trouble {}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        Self::fault(trouble)
    }
}

impl From<sqlx::Error> for Trouble {
    fn from(error: sqlx::Error) -> Self {
        match error {
            // Only code and message: a detail may quote the row.
            sqlx::Error::Database(error) => Self::Server {
                code: error.code().unwrap_or_default().into_owned(),
                message: error.message().to_owned(),
                fatal: !matches!(
                    error.try_downcast_ref::<PgDatabaseError>().map(PgDatabaseError::severity),
                    Some(PgSeverity::Error)
                ),
            },
            sqlx::Error::PoolTimedOut => Self::NoConnection,
            error => Self::Connection(error.to_string()),
        }
    }
}

/// What to do about a failed try.
pub(super) enum Remedy {
    /// The connection is sound; wait a little and try again.
    Again,
    /// The connection is not; try again on another.
    Elsewhere,
    /// Tell the caller.
    Report,
}

impl Trouble {
    /// Somebody left the connection in a transaction that has failed.
    pub(super) fn is_aborted(&self) -> bool {
        matches!(self, Self::Server { code, .. } if code == "25P02")
    }

    pub(super) fn remedy(&self) -> Remedy {
        match self {
            Self::Server { code, .. } => match code.as_str() {
                // Serialization failure, deadlock, lock timeout, a key that is there after all: races, which are not faults.
                "40001" | "40P01" | "55P03" | "23505" => Remedy::Again,
                // Inside somebody's transaction, sound or aborted; shut down, crashed, starting.
                "25001" | "25P02" | "57P01" | "57P02" | "57P03" => Remedy::Elsewhere,
                _ => Remedy::Report,
            },
            Self::Contended => Remedy::Again,
            Self::Connection(_) | Self::InTransaction => Remedy::Elsewhere,
            Self::NoConnection | Self::NoAnswer | Self::ForeignReply => Remedy::Report,
        }
    }
}

/// A row that answers our call.
pub(super) struct Reply(PgRow);

impl Reply {
    /// The value after the head, `None` for NULL.
    pub(super) fn get<'r, T>(&'r self, at: usize) -> Result<Option<T>, Trouble>
    where
        T: Decode<'r, Postgres> + Type<Postgres>,
    {
        value(&self.0, HEAD + at)
    }

    /// The value after the head, which a sound record always has.
    pub(super) fn need<'r, T>(&'r self, at: usize, what: &'static str) -> Result<T, StoreError>
    where
        T: Decode<'r, Postgres> + Type<Postgres>,
    {
        self.get(at)?.ok_or_else(|| CorruptRecord::new(what).into())
    }
}

/// How many columns say whose reply it is.
const HEAD: usize = 3;

fn value<'r, T>(row: &'r PgRow, at: usize) -> Result<Option<T>, Trouble>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    // The driver indexes a row by the columns it expects; a foreign row may be shorter, and it panics.
    match catch_unwind(AssertUnwindSafe(|| row.try_get::<Option<T>, _>(at))) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) | Err(_) => Err(Trouble::ForeignReply),
    }
}

/// Sends statements over a pool.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) pool: PgPool,
    pub(super) timeout: Duration,
    /// Numbers the calls, from a random start, so that no two calls of any process share one.
    pub(super) calls: Arc<AtomicU64>,
}

impl Caller {
    /// Runs `statement` until it answers, and reads the answer. `Err(Contended)` from `read` runs it again, as every verb
    /// may be repeated.
    pub(super) async fn call<T>(
        &self,
        statement: &Statement,
        id: &RecordId,
        args: &[Arg<'_>],
        limit: Duration,
        read: impl Fn(&Reply) -> Result<T, StoreError>,
    ) -> Result<Result<T, StoreError>, Trouble> {
        let started = Instant::now();
        let deadline = started + limit;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let trouble = match self.once(statement, id, args, deadline).await {
                Ok(reply) => match read(&reply) {
                    Err(StoreError::Fault(cause)) => match cause.downcast::<Trouble>() {
                        Ok(trouble) => *trouble,
                        Err(cause) => return Ok(Err(StoreError::Fault(cause))),
                    },
                    answer => return Ok(answer),
                },
                Err(trouble) => trouble,
            };
            let pause = match trouble.remedy() {
                Remedy::Report => return Err(trouble),
                Remedy::Again => jitter(attempt),
                Remedy::Elsewhere => jitter(attempt / 3),
            };
            if attempt >= ATTEMPTS || started.elapsed() + pause > RETRY_WINDOW.min(limit) {
                return Err(trouble);
            }
            sleep(pause).await;
        }
    }

    /// One try. A connection that may be unsound is closed, never lent again.
    async fn once(
        &self,
        statement: &Statement,
        id: &RecordId,
        args: &[Arg<'_>],
        deadline: Instant,
    ) -> Result<Reply, Trouble> {
        let mut connection = timeout_at(deadline, self.pool.acquire()).await.map_err(|_| Trouble::NoConnection)??;
        let answer = timeout_at(deadline, self.exchange(&mut connection, statement, id, args)).await;
        let answer = answer.unwrap_or(Err(Trouble::NoAnswer));
        let sound = match &answer {
            Ok(_) => true,
            Err(Trouble::Server { code, .. }) => {
                !(code.starts_with("57P") || matches!(code.as_str(), "25001" | "25P02" | "26000" | "42P05" | "08P01"))
            }
            Err(_) => false,
        };
        if !sound {
            // Not returned and not closed politely, which could wait for a server that is gone.
            drop(PoolConnection::detach(connection));
        }
        answer
    }

    async fn exchange(
        &self,
        connection: &mut PgConnection,
        statement: &Statement,
        id: &RecordId,
        args: &[Arg<'_>],
    ) -> Result<Reply, Trouble> {
        let reply = ask(&self.calls, connection, statement, id, args, true).await?;
        if value::<bool>(&reply.0, 2)? != Some(false) && (statement.simple || in_transaction(connection).await?) {
            return Err(Trouble::InTransaction);
        }
        Ok(reply)
    }
}

/// Sends `statement` over `connection`; a reply to another call is trouble. Not `cached`, the server keeps no prepared
/// statement that another of a pooler's clients would meet.
pub(super) async fn ask(
    calls: &AtomicU64,
    connection: &mut PgConnection,
    statement: &Statement,
    id: &RecordId,
    args: &[Arg<'_>],
    cached: bool,
) -> Result<Reply, Trouble> {
    let call = calls.fetch_add(1, Ordering::Relaxed).cast_signed();
    let head = [Arg::Int(call), Arg::Bytes(id.as_bytes()), Arg::Int(statement.number)];
    let args = head.iter().chain(args);
    // All rows, so that an error at the commit, which comes after the row, is seen.
    let mut rows = if statement.simple {
        let args: Vec<_> = args.copied().collect();
        raw_sql(AssertSqlSafe(inline(&statement.sql, &args))).fetch_all(connection).await?
    } else {
        let query = query(AssertSqlSafe(statement.sql.clone())).persistent(cached);
        args.fold(query, |query, arg| match *arg {
            Arg::Int(value) => query.bind(value),
            Arg::Bool(value) => query.bind(value),
            Arg::Bytes(value) => query.bind(value),
            Arg::Text(value) => query.bind(value),
            Arg::List(values) => query.bind(values),
        })
        .fetch_all(connection)
        .await?
    };
    let row = rows.pop().filter(|_| rows.is_empty()).ok_or(Trouble::ForeignReply)?;
    let ours = value::<i64>(&row, 0)? == Some(call) && value::<Vec<u8>>(&row, 1)?.as_deref() == Some(id.as_bytes());
    if !ours {
        return Err(Trouble::ForeignReply);
    }
    Ok(Reply(row))
}

/// Whether an earlier user of this connection left a transaction open: then nothing we wrote is committed.
async fn in_transaction(connection: &mut PgConnection) -> Result<bool, Trouble> {
    let row = raw_sql("SELECT statement_timestamp() <> transaction_timestamp()").fetch_one(connection).await?;
    Ok(value(&row, 0)?.unwrap_or(true))
}

/// A random pause that grows: up to 2, 4, 8 … 256 ms.
pub(super) fn jitter(attempt: u32) -> Duration {
    if attempt == 0 {
        return Duration::ZERO;
    }
    let most = 1000_u64 << attempt.min(8);
    Duration::from_micros(getrandom::u64().map_or(most / 2, |random| random % most))
}
