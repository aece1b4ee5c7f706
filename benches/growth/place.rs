//! The stores, how they are filled fast, and what they take.

use std::{sync::Arc, time::Duration};

use idem_runtime::store::{Claim, DynStore, MemoryStore, PostgresStore, RedisStore, SqliteStore};
use sqlx::PgPool;

use crate::load::{complete, fresh};

/// A store and the way behind it: many records are made by copying one.
pub(crate) struct Place {
    store: Arc<dyn DynStore>,
    behind: Behind,
}

enum Behind {
    Memory(MemoryStore),
    Sqlite(String),
    Postgres(PgPool),
    Redis(redis::aio::MultiplexedConnection),
}

impl Place {
    pub(crate) fn memory() -> Self {
        let store = MemoryStore::with_capacity_bytes(16 << 30);
        Self { store: Arc::new(store.clone()), behind: Behind::Memory(store) }
    }

    pub(crate) fn sqlite(folder: &str) -> Self {
        let path = format!("{folder}/growth.db");
        Self { store: Arc::new(SqliteStore::open(&path).unwrap()), behind: Behind::Sqlite(path) }
    }

    pub(crate) async fn server(url: &str) -> Self {
        if url.starts_with("redis") {
            let client = redis::Client::open(url).unwrap();
            let connection = client.get_multiplexed_async_connection().await.unwrap();
            return Self {
                store: Arc::new(RedisStore::connect(url).await.unwrap()),
                behind: Behind::Redis(connection),
            };
        }
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(16).connect(url).await.unwrap();
        let store = PostgresStore::new(pool.clone());
        store.migrate().await.unwrap();
        Self { store: Arc::new(store), behind: Behind::Postgres(pool) }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.behind {
            Behind::Memory(_) => "memory",
            Behind::Sqlite(_) => "sqlite",
            Behind::Postgres(_) => "postgres",
            Behind::Redis(_) => "redis",
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn DynStore> {
        Arc::clone(&self.store)
    }

    pub(crate) fn expires_by_itself(&self) -> bool {
        matches!(self.behind, Behind::Redis(_))
    }

    /// Adds completed records that last for `ttl`.
    pub(crate) async fn fill(&mut self, records: u64, ttl: Duration) {
        let claim = Claim { ttl: ttl.max(Duration::from_mins(1)), ..fresh() };
        complete(&self.store, &claim).await;
        let gone = ttl < Duration::from_secs(1);
        let id = claim.id.as_bytes();
        match &mut self.behind {
            Behind::Memory(store) => {
                for _ in 0..records {
                    complete(store, &Claim { ttl, ..fresh() }).await;
                }
            }
            Behind::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.busy_timeout(Duration::from_mins(1)).unwrap();
                let expires = if gone { "1" } else { "expires_at" };
                let copy = format!(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
                     INSERT INTO idem_record
                     (id, state, token, epoch, attempt, hold, fingerprint, boot, lease_until, expires_at, outcome)
                     SELECT randomblob(32), state, token, epoch, attempt, hold, fingerprint, boot, lease_until,
                     {expires}, outcome FROM n, idem_record WHERE id = ?1"
                );
                for batch in batches(records) {
                    connection.execute(&copy, (&id[..], batch)).unwrap();
                }
            }
            Behind::Postgres(pool) => {
                let expires = if gone { "1" } else { "r.expires" };
                let copy = format!(
                    "INSERT INTO idem_record (epoch, attempt, lease_until, expires, purge_at, state, hold, id, token,
                     fingerprint, response)
                     SELECT r.epoch, r.attempt, r.lease_until, {expires}, {expires}, r.state, r.hold,
                     decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'), r.token,
                     r.fingerprint, r.response FROM idem_record r, generate_series(1, $2) WHERE r.id = $1"
                );
                for batch in batches(records) {
                    sqlx::query(sqlx::AssertSqlSafe(copy.clone()))
                        .bind(&id[..])
                        .bind(batch)
                        .execute(&*pool)
                        .await
                        .unwrap();
                }
            }
            Behind::Redis(connection) => {
                let name = |id: &[u8]| [b"idem:", id].concat();
                let record: Vec<u8> = redis::cmd("GET").arg(name(id)).query_async(connection).await.unwrap();
                for batch in batches(records)
                    .flat_map(|batch| std::iter::repeat_n(1000_i64, usize::try_from(batch / 1000).unwrap()))
                {
                    let mut pipe = redis::pipe();
                    for _ in 0..batch {
                        pipe.cmd("SET").arg(name(fresh().id.as_bytes())).arg(&record).arg("PX").arg(3_600_000).ignore();
                    }
                    pipe.query_async::<()>(connection).await.unwrap();
                }
            }
        }
    }

    /// What the store takes in all: memory for those that live in it, the files otherwise.
    pub(crate) async fn bytes(&mut self) -> u64 {
        match &mut self.behind {
            Behind::Memory(_) => {
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
                line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
            }
            Behind::Sqlite(path) => {
                let size = |path: &str| std::fs::metadata(path).map_or(0, |file| file.len());
                size(path) + size(&format!("{path}-wal"))
            }
            Behind::Postgres(pool) => {
                let size = "SELECT pg_total_relation_size('idem_record')";
                let size: i64 = sqlx::query_scalar(size).fetch_one(&*pool).await.unwrap();
                size.cast_unsigned()
            }
            Behind::Redis(connection) => {
                let info: String = redis::cmd("INFO").arg("memory").query_async(connection).await.unwrap();
                let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
                line.trim().parse().unwrap()
            }
        }
    }
}

/// So many records, in transactions that leave others some room.
fn batches(records: u64) -> impl Iterator<Item = i64> {
    const BATCH: u64 = 50_000;
    (0..records.div_ceil(BATCH)).map(move |batch| i64::try_from(BATCH.min(records - batch * BATCH)).unwrap())
}
