use std::{
    pin::pin,
    sync::atomic::AtomicU64,
    task::{Context, Poll, Waker},
};

use tokio::{runtime::Handle, time::sleep};

use super::*;
use crate::protocol::Fingerprint;

const LONG: Duration = Duration::from_hours(1);

/// A store whose time is in the test's hands, in microseconds.
fn with_time(capacity: usize) -> (MemoryStore, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(1_000_000_000));
    let clock = Arc::clone(&time);
    (MemoryStore::with_clock(capacity, move || Micros(clock.load(Relaxed))), time)
}

fn id(n: u64) -> RecordId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    RecordId::from_bytes(bytes)
}

fn claim(id: RecordId, token: u8, ttl: Duration) -> Claim {
    Claim {
        id,
        token: Token::from_bytes([token; 16]),
        fingerprint: Fingerprint::from_bytes([1; Fingerprint::LENGTH]),
        older_fingerprints: Vec::new(),
        hold: false,
        lease: LONG,
        ttl,
        waiting: false,
    }
}

fn completion(claim: &Claim, outcome: &'static [u8]) -> Completion {
    Completion {
        id: claim.id,
        token: claim.token,
        epoch: 1,
        attempt: 1,
        fingerprint: claim.fingerprint,
        ttl: claim.ttl,
        outcome: Bytes::from_static(outcome),
    }
}

/// The answer of a future that has one without waiting for anything.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the memory store waits"),
    }
}

fn run_to_the_end(store: &MemoryStore, id: RecordId, ttl: Duration) {
    let claim = claim(id, 1, ttl);
    assert!(matches!(at_once(store.claim(&claim)), Ok(Claimed::Owner { .. })));
    assert_eq!(at_once(store.complete(&completion(&claim, b"done"))).unwrap(), Ack::Done);
}

fn has(store: &MemoryStore, id: RecordId) -> bool {
    at_once(store.get(&id)).unwrap().is_some()
}

fn slots(store: &MemoryStore) -> usize {
    store.shared.shards.iter().map(|shard| lock(shard).slots()).sum()
}

#[test]
fn a_record_lives_until_its_expiry_and_not_at_it() {
    let (store, time) = with_time(1 << 20);
    run_to_the_end(&store, id(1), Duration::from_millis(50));
    let start = time.load(Relaxed);
    for (after, lives) in [(0, true), (49_999, true), (50_000, false), (50_001, false)] {
        time.store(start + after, Relaxed);
        assert_eq!(has(&store, id(1)), lives, "{after} µs after");
        let other = Claim { ttl: Duration::ZERO, lease: Duration::ZERO, ..claim(id(1), 2, LONG) };
        let replayed = matches!(at_once(store.claim(&other)), Ok(Claimed::Replay { .. }));
        assert_eq!(replayed, lives, "{after} µs after");
    }
}

#[test]
fn owners_never_share_an_epoch_however_fast_they_follow() {
    let (store, _stands_still) = with_time(1 << 20);
    let mut last = 0;
    for token in 0..100 {
        let claim = claim(id(1), token, LONG);
        let Ok(Claimed::Owner { epoch, .. }) = at_once(store.claim(&claim)) else { panic!("not the owner") };
        assert!(epoch > last, "{epoch} after {last}");
        last = epoch;
        assert_eq!(at_once(store.release(&claim.id, &claim.token)).unwrap(), Ack::Done);
    }
}

#[test]
fn what_expires_first_makes_room_first() {
    let (store, _) = with_time(4 * 300);
    for (n, hours) in [(1, 3), (2, 1), (3, 4), (4, 2)] {
        run_to_the_end(&store, id(n), Duration::from_hours(hours));
    }
    for (newcomer, gone) in [(5, 2), (6, 4), (7, 1)] {
        assert!(has(&store, id(gone)), "{gone} went too early");
        run_to_the_end(&store, id(newcomer), Duration::from_hours(10));
        assert!(!has(&store, id(gone)), "{gone} is still there");
        assert!(store.used_bytes() <= 4 * 300);
    }
    assert!(has(&store, id(3)), "what expires last went");
}

/// An evicted hold would let the handler run a second time.
#[test]
fn a_held_record_is_never_evicted() {
    let (store, _) = with_time(300);
    let held = claim(id(1), 1, LONG);
    assert!(matches!(at_once(store.claim(&held)), Ok(Claimed::Owner { .. })));
    assert_eq!(at_once(store.hold(&held.id, &held.token, LONG)).unwrap(), Ack::Done);
    assert!(matches!(at_once(store.claim(&claim(id(2), 1, LONG))), Err(StoreError::Fault(_))), "there is no room");
    assert!(has(&store, id(1)));
}

#[test]
fn a_running_attempt_is_never_evicted() {
    let (store, time) = with_time(4 * 300);
    let running: Vec<_> = (0..4).map(|n| claim(id(n), 1, Duration::from_secs(1))).collect();
    for claim in &running {
        assert!(matches!(at_once(store.claim(claim)), Ok(Claimed::Owner { .. })));
    }
    let late = claim(id(9), 1, LONG);
    assert!(matches!(at_once(store.claim(&late)), Err(StoreError::Fault(_))), "there is no room");
    assert!(
        matches!(at_once(store.claim(&claim(id(0), 2, LONG))), Ok(Claimed::InProgress { .. })),
        "nobody needs room"
    );
    // What was admitted is finished, however large; then there is room again.
    let large = Completion { outcome: vec![7; 5000].into(), ..completion(&running[0], b"") };
    assert_eq!(at_once(store.complete(&large)).unwrap(), Ack::Done);
    for claim in &running[1..] {
        assert!(has(&store, claim.id), "a running attempt is gone");
    }
    assert!(matches!(at_once(store.claim(&late)), Ok(Claimed::Owner { .. })));
    assert!(store.used_bytes() <= 4 * 300);
    // An expired claim is nobody's any more.
    time.fetch_add(2 * 3_601_000_000, Relaxed);
    assert!(matches!(at_once(store.claim(&claim(id(10), 1, LONG))), Ok(Claimed::Owner { .. })));
}

#[test]
fn the_bytes_in_use_come_back() {
    let (store, time) = with_time(1 << 20);
    for n in 0..100 {
        let claim = claim(id(n), 1, LONG);
        assert!(matches!(at_once(store.claim(&claim)), Ok(Claimed::Owner { .. })));
        match n % 4 {
            0 => drop(at_once(store.release(&claim.id, &claim.token))),
            1 => drop(at_once(store.complete(&completion(&claim, b"some bytes")))),
            2 => drop(at_once(store.hold(&claim.id, &claim.token, LONG))),
            _ => assert!(at_once(store.forget(&claim.id)).unwrap()),
        }
    }
    assert_eq!(store.used_bytes(), 50 * shard::RECORD_BYTES + 25 * b"some bytes".len());
    time.fetch_add(3_600_000_000, Relaxed);
    assert_eq!(at_once(store.purge(PurgeLimits::default())).unwrap(), Purged { removed: 50, more: false });
    assert_eq!(store.used_bytes(), 0);
}

#[tokio::test]
async fn a_purge_leaves_the_thread_to_others() {
    let (store, time) = with_time(usize::MAX);
    for n in 0..10_000 {
        run_to_the_end(&store, id(n), Duration::from_secs(1));
    }
    time.fetch_add(2_000_000, Relaxed);
    let turns = Arc::new(AtomicU64::new(0));
    let others = tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, Relaxed);
                yield_now().await;
            }
        }
    });
    store.purge(PurgeLimits { rows: 500, ..PurgeLimits::default() }).await.unwrap();
    others.abort();
    assert_eq!(store.used_bytes(), 0);
    assert!(turns.load(Relaxed) >= 10_000 / 500 - 1, "{} turns", turns.load(Relaxed));
}

#[test]
fn ids_with_one_hash_are_two_records() {
    // hash(a) = 1 * ODD + 0 = hash(b) = 0 * ODD + ODD.
    let words = |third: u64, fourth: u64| {
        let mut bytes = [0; 32];
        bytes[16..24].copy_from_slice(&third.to_be_bytes());
        bytes[24..].copy_from_slice(&fourth.to_be_bytes());
        RecordId::from_bytes(bytes)
    };
    let (a, b) = (words(1, 0), words(0, 0x9e37_79b9_7f4a_7c15));
    for (first, second) in [(1, 2), (2, 1), (1, 1)] {
        let (store, time) = with_time(1 << 20);
        run_to_the_end(&store, a, Duration::from_secs(first));
        assert!(!has(&store, b));
        run_to_the_end(&store, b, Duration::from_secs(second));
        time.fetch_add(1_000_000, Relaxed);
        at_once(store.purge(PurgeLimits::default())).unwrap();
        assert_eq!((has(&store, a), has(&store, b)), (first > 1, second > 1));
        time.fetch_add(1_000_000, Relaxed);
        at_once(store.purge(PurgeLimits::default())).unwrap();
        assert_eq!(store.used_bytes(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_expired_is_freed_though_nobody_asks() {
    let store = MemoryStore::with_capacity_bytes(usize::MAX);
    for n in 0..1_000_000 {
        run_to_the_end(&store, id(n), Duration::from_secs(2 + n % 3));
    }
    assert!(slots(&store) >= 1_000_000);
    let long = store.used_bytes();
    sleep(Duration::from_secs(6)).await;
    assert_eq!(store.used_bytes(), 0, "of {long} bytes");
    assert!(slots(&store) < 1000, "{} slots are kept for nothing", slots(&store));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0, "an empty store needs no sweeper");
    // And again, by a new one.
    run_to_the_end(&store, id(1), Duration::from_secs(2));
    sleep(Duration::from_secs(3)).await;
    assert_eq!(store.used_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_store_leaves_no_task() {
    let store = MemoryStore::new();
    run_to_the_end(&store, id(1), LONG);
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    drop(store);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

#[test]
fn the_sweeper_survives_its_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let store = MemoryStore::new();
    runtime().block_on(async { run_to_the_end(&store, id(1), Duration::from_millis(1)) });
    assert!(store.used_bytes() > 0);
    std::thread::sleep(Duration::from_millis(2));
    let second = runtime();
    second.block_on(async {
        run_to_the_end(&store, id(2), LONG);
        sleep(Duration::from_secs(1)).await;
    });
    assert!(!has(&store, id(1)));
    assert_eq!(store.used_bytes(), shard::RECORD_BYTES + b"done".len());
}
