//! The Redis store, against servers of the test's own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, outside of their functions"
)]

mod cluster;
mod faults;
mod history;
mod server;
mod warnings;

use std::time::Duration;

use bytes::Bytes;
use idem_runtime::store::{
    Ack, Claim, Claimed, Completion, Fingerprint, RecordId, RedisStore, Store as _, StoreError, Token, Wakeups,
};
use idem_tests::redis::RedisServer;

const HOUR: Duration = Duration::from_hours(1);
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

/// The wake-ups of a store that listens.
async fn listening(store: &RedisStore) -> Wakeups {
    let wakeups = Wakeups::default();
    // Subscribing wakes everyone, since something may have been missed.
    let subscribed = wakeups.woken(&id(0));
    store.listen(wakeups.clone());
    ends(subscribed).await;
    wakeups
}

/// A settlement through `store` wakes who waits through `other`, and nobody else.
async fn wakes(store: &RedisStore, other: &RedisStore, wakeups: &Wakeups) {
    let on = 1000;
    for settle in 0..3 {
        owner(store, &claim(on + settle, 1)).await;
        let waiting = Claim { waiting: true, ..claim(on + settle, 2) };
        assert!(matches!(other.claim(&waiting).await.unwrap(), Claimed::InProgress { .. }));
        let woken = wakeups.woken(&id(on + settle));
        let mut unrelated = std::pin::pin!(wakeups.woken(&id(0)));
        let ack = match settle {
            0 => store.complete(&completion(on, 1)).await,
            1 => store.release(&id(on + 1), &token(1)).await,
            _ => store.hold(&id(on + 2), &token(1), HOUR).await,
        };
        assert_eq!(ack.unwrap(), Ack::Done);
        ends(woken).await;
        assert!(futures::poll!(unrelated.as_mut()).is_pending());
        assert!(store.forget(&id(on + settle)).await.unwrap() || settle == 1);
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
