//! The PostgreSQL store against real servers and a real pooler.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

mod broken;
mod contract;
mod pooled;
mod races;
mod service;

use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use idem_runtime::store::{Claim, Claimed, Completion, Fingerprint, PostgresStore, RecordId, Token};
use idem_tests::postgres::{Postgres, execute, hex, pool};
use sqlx::PgPool;

/// The server that the tests share while any of them runs; `None` where PostgreSQL isn't installed.
fn server() -> Option<Arc<Postgres>> {
    static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(server) = shared.upgrade() {
        return Some(server);
    }
    let server = Arc::new(Postgres::start()?);
    *shared = Arc::downgrade(&server);
    Some(server)
}

/// A database of the caller's own on `server`, with the table in it.
async fn database(server: &Postgres) -> String {
    let name = empty_database(server).await;
    PostgresStore::new(pool(&server.url_of(&name), 1).await).migrate().await.unwrap();
    name
}

async fn empty_database(server: &Postgres) -> String {
    let name = format!("test_{}", next());
    execute(&pool(&server.url(), 1).await, format!("CREATE DATABASE {name}")).await;
    name
}

/// A store on `size` connections to a database.
async fn store(server: &Postgres, database: &str, size: u32) -> (PostgresStore, PgPool) {
    let pool = pool(&server.url_of(database), size).await;
    (PostgresStore::new(pool.clone()), pool)
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

const LONG: Duration = Duration::from_mins(5);

/// A claim of a fresh record.
fn fresh() -> Claim {
    let number = next();
    Claim {
        id: RecordId::derive("test", "POST /", None, &number.to_be_bytes()),
        token: token(),
        fingerprint: Fingerprint::from_bytes([1; Fingerprint::LENGTH]),
        older_fingerprints: Vec::new(),
        hold: false,
        lease: LONG,
        ttl: LONG,
        waiting: false,
    }
}

fn token() -> Token {
    Token::from_bytes((u128::from(next()) << 64 | u128::from(std::process::id())).to_be_bytes())
}

/// The same request by another attempt.
fn duplicate(claim: &Claim) -> Claim {
    Claim { token: token(), ..claim.clone() }
}

fn completion(claim: &Claim, outcome: impl Into<Bytes>) -> Completion {
    Completion {
        id: claim.id,
        token: claim.token,
        epoch: 1,
        attempt: 1,
        fingerprint: claim.fingerprint,
        ttl: LONG,
        outcome: outcome.into(),
    }
}

fn owns(claimed: &Claimed) -> bool {
    matches!(claimed, Claimed::Owner { .. })
}

fn replays(claimed: &Claimed, expected: &[u8]) -> bool {
    matches!(claimed, Claimed::Replay { outcome } if outcome == expected)
}

/// A record's id as SQL.
fn sql_id(claim: &Claim) -> String {
    format!("'\\x{}'::bytea", hex(claim.id.as_bytes()))
}

/// What went wrong, with its causes.
fn chain(error: &idem_runtime::store::StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
