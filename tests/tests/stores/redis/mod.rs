//! The Redis store, against servers of the test's own.

mod cluster;
mod faults;
mod history;
mod server;
mod warnings;

use std::time::Duration;

use bytes::Bytes;
use idem_runtime::store::{
    Ack, Claim, Claimed, Completion, Fingerprint, RecordId, RedisStore, Store as _, StoreError, Token,
};
use idem_tests::redis::RedisServer;

const HOUR: Duration = Duration::from_secs(3600);
const PAID: &[u8] = b"paid";

/// A server and a store on it, or the end of a test that is skipped.
macro_rules! start {
    ($($arg:expr),*) => {{
        let Some(server) = idem_tests::redis::RedisServer::start(&[$($arg),*]).await else { return };
        let store = idem_runtime::store::RedisStore::connect(server.url()).await.expect("connect");
        (server, store)
    }};
}
use start;

fn id(number: u64) -> RecordId {
    RecordId::derive("test", "POST /payments", None, &number.to_be_bytes())
}

fn token(number: u8) -> Token {
    Token::from_bytes([number; 16])
}

fn print(number: u8) -> Fingerprint {
    Fingerprint::from_bytes([number; Fingerprint::LENGTH])
}

/// What attempt `by` asks for on record `on`.
fn claim(on: u64, by: u8) -> Claim {
    Claim {
        id: id(on),
        token: token(by),
        fingerprint: print(1),
        older_fingerprints: Vec::new(),
        hold: false,
        lease: HOUR,
        ttl: HOUR,
        waiting: false,
    }
}

fn completion(on: u64, by: u8) -> Completion {
    Completion {
        id: id(on),
        token: token(by),
        epoch: 7,
        attempt: 1,
        fingerprint: print(1),
        ttl: HOUR,
        outcome: Bytes::from_static(PAID),
    }
}

/// The epoch of a claim that must get the record.
async fn owner(store: &RedisStore, claim: &Claim) -> u64 {
    match store.claim(claim).await {
        Ok(Claimed::Owner { epoch, .. }) => epoch,
        other => panic!("not the owner: {other:?}"),
    }
}

async fn complete(store: &RedisStore, on: u64, by: u8) {
    owner(store, &claim(on, by)).await;
    assert_eq!(store.complete(&completion(on, by)).await.expect("complete"), Ack::Done);
}

/// How the store ended its call within the time that the engine gives it.
async fn ends<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(2), call).await.expect("the call outlasts the store timeout")
}

/// The text of a fault, with its causes.
fn fault<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Fault(cause)) => cause.to_string(),
        other => panic!("not a fault: {other:?}"),
    }
}

/// What one counter of the server says.
async fn calls(server: &RedisServer, command: &str) -> u64 {
    let info: String = server.run(redis::cmd("INFO").arg("commandstats")).await;
    let Some(line) = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls="))) else {
        return 0;
    };
    line.split(',').next().and_then(|count| count.parse().ok()).expect("a count")
}
