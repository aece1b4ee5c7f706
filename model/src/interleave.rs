//! Threads that meet in the memory store and among the waiters; a scheduler decides who goes first.
//!
//! Each function is one meeting, to be run under `shuttle`. They panic where the store or the waiters fail.

use std::{future::Future, time::Duration};

use bytes::Bytes;
use idem_runtime::protocol::{Ack, Claim, Fingerprint, RecordId, Token};
use shuttle::{
    future::block_on,
    sync::Arc,
    thread::{JoinHandle, spawn, yield_now},
};

use crate::{
    store::{Claimed, Completion, PurgeLimits, Store as _, StoreError, memory::MemoryStore},
    waiters::Waiters,
};

const LONG: Duration = Duration::from_hours(1);
const PLENTY: usize = 1 << 20;
/// What a record without outcome takes of the store's capacity.
const RECORD: usize = 256;

fn id(n: u8) -> RecordId {
    RecordId::from_bytes([n; 32])
}

fn claim(id: RecordId, token: u8, lease: Duration, ttl: Duration) -> Claim {
    Claim {
        id,
        token: Token::from_bytes([token; 16]),
        fingerprint: Fingerprint::from_bytes([1; Fingerprint::LENGTH]),
        older_fingerprints: Vec::new(),
        hold: false,
        lease,
        ttl,
        waiting: false,
    }
}

fn completion(claim: &Claim) -> Completion {
    Completion {
        id: claim.id,
        token: claim.token,
        epoch: 1,
        attempt: 1,
        fingerprint: claim.fingerprint,
        ttl: claim.ttl,
        outcome: Bytes::copy_from_slice(claim.token.as_bytes()),
    }
}

fn now<T>(call: impl Future<Output = Result<T, StoreError>>) -> T {
    block_on(call).expect("the memory store has room")
}

fn claimed(store: &MemoryStore, claim: &Claim) -> Claimed {
    now(store.claim(claim))
}

fn at_once<T: Send + 'static>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    // All are started before the first is waited for.
    let threads: Vec<_> = threads.into_iter().collect();
    threads.into_iter().map(|thread| thread.join().expect("a thread failed")).collect()
}

/// Three claims of one key at once: one owner, with an epoch of its own.
pub fn claims_of_one_key() {
    let store = MemoryStore::with_capacity_bytes(PLENTY);
    let got = at_once((1..=3).map(|token| {
        let store = store.clone();
        spawn(move || claimed(&store, &claim(id(1), token, LONG, LONG)))
    }));
    let owners = got.iter().filter(|claimed| matches!(claimed, Claimed::Owner { attempt: 1, .. })).count();
    let others = got.iter().filter(|claimed| matches!(claimed, Claimed::InProgress { .. })).count();
    assert_eq!((owners, others), (1, 2), "{got:?}");
    assert_eq!(store.used_bytes(), RECORD);
}

/// An owner completes while another takes over its lapsed lease, and a purge goes by: one of the two has the record.
pub fn completion_and_takeover() {
    let store = MemoryStore::with_capacity_bytes(PLENTY);
    let first = claim(id(1), 1, Duration::ZERO, LONG);
    let Claimed::Owner { epoch, .. } = claimed(&store, &first) else { panic!("the first claim owns") };
    let (completing, purging) = (store.clone(), store.clone());
    let completes = spawn(move || now(completing.complete(&completion(&first))));
    let purges = spawn(move || now(purging.purge(PurgeLimits::default())).removed);
    let got = at_once((2..=3).map(|token| {
        let store = store.clone();
        spawn(move || claimed(&store, &claim(id(1), token, LONG, LONG)))
    }));
    let ack = completes.join().expect("completes");
    assert_eq!(purges.join().expect("purges"), 0, "the record lives");
    let owners: Vec<_> = got.iter().filter(|claimed| matches!(claimed, Claimed::Owner { .. })).collect();
    match ack {
        Ack::Done => assert!(got.iter().all(|claimed| matches!(claimed, Claimed::Replay { .. })), "{got:?}"),
        Ack::Lost => {
            assert!(
                matches!(owners[..], [Claimed::Owner { epoch: newer, attempt: 2 }] if *newer > epoch),
                "{got:?} after {epoch}"
            );
        }
    }
}

/// A purge meets a claim of the expired record that it is about to delete: the new claim stays.
pub fn purge_and_claim() {
    let store = MemoryStore::with_capacity_bytes(PLENTY);
    let expired = claim(id(1), 1, Duration::ZERO, Duration::ZERO);
    assert!(matches!(claimed(&store, &expired), Claimed::Owner { .. }));
    let purges = (0..2).map(|_| {
        let store = store.clone();
        spawn(move || now(store.purge(PurgeLimits::default())).removed)
    });
    let purges: Vec<_> = purges.collect();
    let claiming = store.clone();
    let claims = spawn(move || claimed(&claiming, &claim(id(1), 2, LONG, LONG)));
    assert!(matches!(claims.join().expect("claims"), Claimed::Owner { attempt: 1, .. }));
    assert!(at_once(purges).iter().sum::<u64>() <= 1);
    assert!(now(store.get(&id(1))).is_some(), "the claim was purged");
    assert_eq!(store.used_bytes(), RECORD);
}

/// Claims that need room evict settled records, each once, and never a running attempt.
pub fn claims_that_need_room() {
    let store = MemoryStore::with_capacity_bytes(3 * RECORD + 16);
    let settled = claim(id(1), 1, LONG, LONG);
    assert!(matches!(claimed(&store, &settled), Claimed::Owner { .. }));
    assert_eq!(now(store.complete(&completion(&settled))), Ack::Done);
    let got = at_once((2..=5).map(|n| {
        let store = store.clone();
        spawn(move || (n, block_on(store.claim(&claim(id(n), n, LONG, LONG)))))
    }));
    let owners: Vec<_> = got.iter().filter(|(_, claimed)| claimed.is_ok()).map(|(n, _)| *n).collect();
    for owner in &owners {
        assert!(now(store.get(&id(*owner))).is_some(), "running attempt {owner} was evicted");
    }
    assert!(owners.len() >= 3, "{got:?}");
    let kept = usize::from(now(store.get(&id(1))).is_some());
    assert_eq!(store.used_bytes(), (owners.len() + kept) * RECORD + kept * 16);
}

/// When a waiting duplicate asks for its wake-up.
#[derive(Clone, Copy, Debug)]
pub enum Asks {
    /// Before it looks at the record, as the engine does.
    BeforeItLooks,
    /// After it has looked: too late.
    AfterItLooked,
}

/// Two duplicates wait for an attempt that ends: both hear of it, though nobody looks at the clock.
pub fn wake_ups(asks: Asks) {
    let store = MemoryStore::with_capacity_bytes(PLENTY);
    let waiters = Arc::new(Waiters::default());
    let owner = claim(id(1), 1, LONG, LONG);
    assert!(matches!(claimed(&store, &owner), Claimed::Owner { .. }));
    let waiting: Vec<_> = (2..=3)
        .map(|token| {
            let (store, waiters) = (store.clone(), Arc::clone(&waiters));
            spawn(move || wait(&store, &waiters, token, asks))
        })
        .collect();
    assert_eq!(now(store.complete(&completion(&owner))), Ack::Done);
    waiters.wake(&owner.id);
    for outcome in at_once(waiting) {
        assert_eq!(outcome.as_ref(), owner.token.as_bytes());
    }
}

fn wait(store: &MemoryStore, waiters: &Arc<Waiters>, token: u8, asks: Asks) -> Bytes {
    let claim = claim(id(1), token, LONG, LONG);
    let mut waiter = None;
    loop {
        let early = waiter.as_ref().map(crate::waiters::Waiter::next);
        match claimed(store, &claim) {
            Claimed::Replay { outcome } => return outcome,
            Claimed::InProgress { .. } => {}
            other => panic!("{other:?}"),
        }
        // Others may act here too; the notification itself has no lock that the scheduler sees.
        yield_now();
        match (&waiter, asks) {
            (None, _) => waiter = waiters.join(claim.id),
            (Some(_), Asks::BeforeItLooks) => block_on(early.expect("asked before")),
            (Some(waiter), Asks::AfterItLooked) => block_on(waiter.next()),
        }
    }
}
