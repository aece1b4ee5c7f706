//! Records in PostgreSQL: one autocommit statement per verb, and a replay is a plain read. A handler that takes a [`Tx`] has
//! its record in its own transaction instead.

mod call;
mod listen;
mod migrate;
mod simple;
mod statements;
mod transaction;
mod tx;

use std::{
    sync::{Arc, OnceLock, atomic::AtomicU64},
    time::Duration,
};

use bytes::Bytes;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
    raw_sql,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use self::{
    call::{Caller, Reply, Trouble},
    simple::Arg,
    statements::{CHANNEL, Statements},
};
use super::{
    Ack, Claim, Claimed, Completion, CorruptRecord, PurgeLimits, Purged, Record, RecordId, State, Store, StoreError,
    Token, Transactional, Wakeups,
};
use crate::protocol::millis;

pub use transaction::is_conflict;
pub use tx::{Delivery, Tx};

/// Keeps records in a PostgreSQL table, over a pool of the application's own.
///
/// ```no_run
/// # async fn start(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use idem_runtime::{Idempotency, store::PostgresStore};
///
/// let store = PostgresStore::new(pool);
/// store.migrate().await?;
/// let idempotency = Idempotency::new(store);
/// # Ok(())
/// # }
/// ```
///
/// A connection is borrowed for one statement at a time, never while a handler runs or a duplicate waits. Claims and
/// settlements are durable even where the role has `synchronous_commit = off`. Give the pool an `acquire_timeout` below the
/// store timeout, or an outage is noticed late.
///
/// # Poolers
///
/// PgBouncer before 1.21, and every pooler of transactions that doesn't track prepared statements (newer PgBouncer with
/// `max_prepared_statements = 0`, Odyssey without `pool_reserve_prepared_statement`), needs
/// [`simple_protocol(true)`](Self::simple_protocol). Without it calls through such a pooler fail; a reply that belongs to
/// another statement is noticed and never served. PgBouncer also needs
/// `ignore_startup_parameters = extra_float_digits`. Through any pooler of transactions a waiting duplicate polls, because
/// `LISTEN` hears nothing there; with `simple_protocol(true)` it isn't tried.
///
/// A [`Tx`] works through one too, since a pooler keeps the server's connection for a transaction. Where
/// `simple_protocol(true)` is needed the handler's own queries need `.persistent(false)`, and the claim and the completion
/// take two round trips each.
#[derive(Debug)]
pub struct PostgresStore {
    caller: Caller,
    /// The application's own, where transactions are shared with it.
    pool: PgPool,
    table: TableName,
    simple: bool,
    statements: Statements,
    listener: OnceLock<AbortOnDrop>,
}

impl PostgresStore {
    /// A store in the table `idem_record`, which [`migrate`](Self::migrate) creates.
    pub fn new(pool: PgPool) -> Self {
        let table = TableName::default();
        let statements = Statements::new(&table, false);
        // Without a random start calls are still told apart within the process.
        let calls = Arc::new(AtomicU64::new(getrandom::u64().unwrap_or_default()));
        let caller = Caller { pool: pool.clone(), timeout: Duration::from_secs(5), calls };
        Self { caller, pool, table, simple: false, statements, listener: OnceLock::new() }
    }

    /// Connects a pool of its own and creates what is missing.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let options: PgConnectOptions = url.parse().map_err(Trouble::from)?;
        let pool = PgPoolOptions::new()
            .max_connections(16)
            .acquire_timeout(Duration::from_millis(1500))
            .idle_timeout(Duration::from_mins(5))
            .max_lifetime(Duration::from_mins(30))
            // Every verb may be repeated on another connection, so only one that rested long is worth a ping.
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for > Duration::from_secs(1) {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .connect_with(options)
            .await
            .map_err(Trouble::from)?;
        let store = Self::new(pool);
        store.migrate().await?;
        Ok(store)
    }

    /// Sends every statement as one simple query with its values in the text, for poolers of transactions.
    ///
    /// The statements then go over a pool like the given one but with the driver's statement log off: that log would
    /// write out what is stored.
    #[must_use]
    pub fn simple_protocol(mut self, on: bool) -> Self {
        if on && !self.simple {
            let pool = &self.caller.pool;
            let options = (*pool.connect_options()).clone().disable_statement_logging();
            self.caller.pool = pool.options().clone().connect_lazy_with(options);
        }
        self.simple = on;
        self.statements = Statements::new(&self.table, on);
        self
    }

    /// Keeps records in `name` or `schema.name`: lower-case letters, digits and `_`, at most 40 of them each.
    pub fn table(mut self, name: &str) -> Result<Self, StoreError> {
        self.table = TableName::parse(name).ok_or_else(|| StoreError::fault("not a table name"))?;
        self.statements = Statements::new(&self.table, self.simple);
        Ok(self)
    }

    /// How long one call may take before its connection is closed and it is a fault; 5 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.caller.timeout = timeout;
        self
    }

    fn notifier(&self) -> Notifier {
        Notifier(self.caller.pool.clone())
    }
}

/// Sends a notification to whoever listens.
struct Notifier(PgPool);

impl Notifier {
    async fn send(&self, payload: &str) -> Result<(), Trouble> {
        raw_sql(AssertSqlSafe(format!("SELECT pg_notify('{CHANNEL}', '{payload}')"))).execute(&self.0).await?;
        Ok(())
    }
}

/// Ends its task when the store is gone.
#[derive(Debug)]
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A table, and its schema where one was named: identifiers that need no quoting.
#[derive(Clone, Debug)]
struct TableName {
    schema: Option<String>,
    table: String,
}

impl Default for TableName {
    fn default() -> Self {
        Self { schema: None, table: "idem_record".to_owned() }
    }
}

impl TableName {
    fn parse(name: &str) -> Option<Self> {
        let plain = |part: &str| {
            let letters = part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            // The longest suffix still fits PostgreSQL's 63.
            letters && part.len() <= 40 && !part.starts_with(|c: char| c.is_ascii_digit()) && !part.is_empty()
        };
        let (schema, table) = match name.split_once('.') {
            Some((schema, table)) => (Some(schema), table),
            None => (None, name),
        };
        let named = plain(table) && schema.is_none_or(plain);
        named.then(|| Self { schema: schema.map(str::to_owned), table: table.to_owned() })
    }

    fn qualified(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}", self.table),
            None => self.table.clone(),
        }
    }
}

/// A duration as the server takes it: beyond 30 000 years there is no difference, and sums stay in range.
fn ms(duration: Duration) -> i64 {
    i64::try_from(millis(duration)).map_or(MOST, |ms| ms.min(MOST))
}

/// More at once would keep a claim waiting for a processor.
const PURGE_ROWS: u32 = 100;
const MOST: i64 = 1_000_000_000_000_000;

fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn read_ack(reply: &Reply) -> Result<Ack, StoreError> {
    match reply.get::<String>(0)?.as_deref() {
        Some("done") => Ok(Ack::Done),
        Some("lost") => Ok(Ack::Lost),
        Some("corrupt") => Err(CorruptRecord::new("its state").into()),
        Some("again") => Err(Trouble::Contended.into()),
        _ => Err(Trouble::ForeignReply.into()),
    }
}

fn read_claimed(reply: &Reply) -> Result<Claimed, StoreError> {
    match reply.get::<String>(0)?.as_deref() {
        Some("owner") => Ok(Claimed::Owner {
            epoch: unsigned(reply.need(1, "its epoch")?, "its epoch")?,
            attempt: small(reply.need(2, "its attempt")?)?,
        }),
        Some("replay") => Ok(Claimed::Replay { outcome: Bytes::from(reply.need::<Vec<u8>>(4, "its response")?) }),
        Some("in_progress") => {
            let left: Option<i64> = reply.get(3)?;
            let left = left.map(|left| unsigned(left, "its lease")).transpose()?;
            Ok(Claimed::InProgress { lease_left: left.map(Duration::from_millis) })
        }
        Some("unknown") => Ok(Claimed::Unknown),
        Some("mismatch") => Ok(Claimed::Mismatch { stored: Bytes::from(reply.need::<Vec<u8>>(4, "its fingerprint")?) }),
        Some("corrupt") => Err(CorruptRecord::new("its state").into()),
        Some("again") => Err(Trouble::Contended.into()),
        _ => Err(Trouble::ForeignReply.into()),
    }
}

fn read_record(reply: &Reply) -> Result<Option<Record>, StoreError> {
    let state = match reply.get::<i64>(0)? {
        None => return Ok(None),
        Some(1) => State::InProgress,
        Some(2) => State::Completed,
        Some(3) => State::Unknown,
        Some(_) => return Err(CorruptRecord::new("its state").into()),
    };
    let lease_left: i64 = reply.need(3, "its lease")?;
    let lease_left = if state == State::InProgress { lease_left.max(0) } else { 0 };
    let outcome = match state {
        State::Completed => Some(Bytes::from(reply.need::<Vec<u8>>(5, "its response")?)),
        State::InProgress | State::Unknown => None,
    };
    Ok(Some(Record {
        state,
        epoch: unsigned(reply.need(1, "its epoch")?, "its epoch")?,
        attempt: small(reply.need(2, "its attempt")?)?,
        lease_left: Duration::from_millis(lease_left.unsigned_abs()),
        expires_in: Duration::from_millis(unsigned(reply.need(4, "its expiry")?, "its expiry")?),
        outcome,
    }))
}

fn unsigned(value: i64, what: &'static str) -> Result<u64, StoreError> {
    u64::try_from(value).map_err(|_| CorruptRecord::new(what).into())
}

/// An attempt's number; the four thousand millionth and all after it are one.
fn small(value: i64) -> Result<u32, StoreError> {
    Ok(u32::try_from(unsigned(value, "its attempt")?).unwrap_or(u32::MAX))
}

impl Store for PostgresStore {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let mut fingerprints: Vec<&[u8]> = vec![claim.fingerprint.as_bytes()];
        fingerprints.extend(claim.older_fingerprints.iter().map(|older| older.as_bytes().as_slice()));
        let args = [
            Arg::Bytes(claim.token.as_bytes()),
            Arg::List(&fingerprints),
            Arg::Bool(claim.hold),
            Arg::Int(ms(claim.lease)),
            Arg::Int(ms(claim.ttl)),
            Arg::Bool(claim.waiting),
        ];
        self.caller.call(&self.statements.claim, &claim.id, &args, self.caller.timeout, read_claimed).await?
    }

    async fn renew(&self, id: &RecordId, token: &Token, lease: Duration) -> Result<Ack, StoreError> {
        let args = [Arg::Bytes(token.as_bytes()), Arg::Int(ms(lease))];
        self.caller.call(&self.statements.renew, id, &args, self.caller.timeout, read_ack).await?
    }

    async fn complete(&self, completion: &Completion) -> Result<Ack, StoreError> {
        let args = [
            Arg::Bytes(completion.token.as_bytes()),
            Arg::Int(int(completion.epoch)),
            Arg::Int(i64::from(completion.attempt)),
            Arg::Bytes(completion.fingerprint.as_bytes()),
            Arg::Int(ms(completion.ttl)),
            Arg::Bytes(&completion.outcome),
        ];
        self.caller.call(&self.statements.complete, &completion.id, &args, self.caller.timeout, read_ack).await?
    }

    async fn release(&self, id: &RecordId, token: &Token) -> Result<Ack, StoreError> {
        let args = [Arg::Bytes(token.as_bytes())];
        self.caller.call(&self.statements.release, id, &args, self.caller.timeout, read_ack).await?
    }

    async fn hold(&self, id: &RecordId, token: &Token, ttl: Duration) -> Result<Ack, StoreError> {
        let args = [Arg::Bytes(token.as_bytes()), Arg::Int(ms(ttl))];
        self.caller.call(&self.statements.hold, id, &args, self.caller.timeout, read_ack).await?
    }

    async fn get(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        self.caller.call(&self.statements.get, id, &[], self.caller.timeout, read_record).await?
    }

    async fn forget(&self, id: &RecordId) -> Result<bool, StoreError> {
        let read = |reply: &Reply| Ok(reply.get::<bool>(0)?.ok_or(Trouble::ForeignReply)?);
        self.caller.call(&self.statements.forget, id, &[], self.caller.timeout, read).await?
    }

    async fn purge(&self, limits: PurgeLimits) -> Result<Purged, StoreError> {
        let started = Instant::now();
        let rows = limits.rows.clamp(1, PURGE_ROWS);
        let args = [Arg::Int(i64::from(rows)), Arg::Int(int(limits.bytes.max(1)))];
        let read = |reply: &Reply| {
            let removed = reply.get::<i64>(0)?.and_then(|removed| u64::try_from(removed).ok());
            Ok((removed.ok_or(Trouble::ForeignReply)?, reply.get::<bool>(1)?.ok_or(Trouble::ForeignReply)?))
        };
        // Concerns no record; the reply is told by the call's number.
        let nobody = RecordId::from_bytes([0; 32]);
        let mut purged = Purged::default();
        loop {
            let began = Instant::now();
            // A batch reads as many pages as it has rows: it may take longer than a claim.
            let limit = self.caller.timeout.max(Duration::from_secs(30));
            let (removed, more) = self.caller.call(&self.statements.purge, &nobody, &args, limit, read).await??;
            purged.removed += removed;
            purged.more = more;
            if !more || started.elapsed() >= limits.time {
                return Ok(purged);
            }
            // The server is the claims' alone for twice as long as a batch took.
            sleep(2 * began.elapsed()).await;
        }
    }

    fn listen(&self, wakeups: Wakeups) {
        self.start_listening(wakeups);
    }

    fn transactional(&self) -> Option<&dyn Transactional> {
        Some(self)
    }
}
