//! Threads that meet in a store and among the waiters; a scheduler decides who goes first.
//!
//! Each function is one meeting, to be run under `shuttle`. They panic where the store or the waiters fail. Those of
//! [`memory`] and [`sqlite`] are the same ones, each in that store.

use std::{future::Future, time::Duration};

use bytes::Bytes;
use idem_runtime::protocol::{Ack, Claim, Fingerprint, RecordId, Token};
use shuttle::{
    future::block_on,
    sync::Arc,
    thread::{JoinHandle, spawn, yield_now},
};

use crate::{
    store::{Claimed, Completion, PurgeLimits, Store, StoreError, memory::MemoryStore, sqlite::SqliteStore},
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
    block_on(call).expect("the store has room, and time")
}

fn claimed(store: &impl Store, claim: &Claim) -> Claimed {
    now(store.claim(claim))
}

fn at_once<T: Send + 'static>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    // All are started before the first is waited for.
    let threads: Vec<_> = threads.into_iter().collect();
    threads.into_iter().map(|thread| thread.join().expect("a thread failed")).collect()
}

fn roomy() -> MemoryStore {
    MemoryStore::with_capacity_bytes(PLENTY)
}

/// Meetings in the memory store.
pub mod memory {
    use super::{RECORD, roomy};

    /// Three claims of one key at once: one owner.
    pub fn claims_of_one_key() {
        let store = roomy();
        super::claims_of_one_key(&store);
        assert_eq!(store.used_bytes(), RECORD);
    }

    /// An owner completes while another takes over its lapsed lease, and a purge goes by: one of the two has the record.
    pub fn completion_and_takeover() {
        super::completion_and_takeover(&roomy());
    }

    /// A purge meets a claim of the expired record that it is about to delete: the new claim stays.
    pub fn purge_and_claim() {
        let store = roomy();
        super::purge_and_claim(&store);
        assert_eq!(store.used_bytes(), RECORD);
    }
}

/// Meetings in the SQLite store: its writer, its readers and the thread of its checkpoints are the scheduler's too.
pub mod sqlite {
    use std::path::Path;

    use super::{Ack, Claimed, LONG, SqliteStore, Store as _, at_once, claim, claimed, completion, id, now, spawn};

    fn with_file(meeting: impl FnOnce(SqliteStore)) {
        // In memory where the system offers that: a flush would be most of the time.
        let folder = Path::new("/dev/shm");
        let folder = if folder.is_dir() { tempfile::tempdir_in(folder) } else { tempfile::tempdir() };
        let folder = folder.expect("a folder");
        meeting(SqliteStore::open(folder.path().join("records")).expect("opens"));
    }

    /// Three claims of one key at once: one owner.
    pub fn claims_of_one_key() {
        with_file(|store| super::claims_of_one_key(&store));
    }

    /// An owner completes while another takes over its lapsed lease, and a purge goes by: one of the two has the record.
    pub fn completion_and_takeover() {
        with_file(|store| super::completion_and_takeover(&store));
    }

    /// A purge meets a claim of the expired record that it is about to delete: the new claim stays.
    pub fn purge_and_claim() {
        with_file(|store| super::purge_and_claim(&store));
    }

    /// Three owners complete, and each looks with another's eyes: what was acknowledged is there for every reader.
    pub fn an_acknowledged_outcome_is_seen() {
        with_file(|store| {
            at_once((1..=3).map(|n| {
                let store = store.clone();
                spawn(move || {
                    let owner = claim(id(n), n, LONG, LONG);
                    assert!(matches!(claimed(&store, &owner), Claimed::Owner { attempt: 1, .. }));
                    assert_eq!(now(store.complete(&completion(&owner))), Ack::Done);
                    let record = now(store.get(&owner.id)).expect("it was acknowledged");
                    assert_eq!(record.outcome.as_deref(), Some(owner.token.as_bytes().as_slice()));
                    let duplicate = claimed(&store, &claim(id(n), n + 10, LONG, LONG));
                    assert!(matches!(duplicate, Claimed::Replay { .. }), "{duplicate:?}");
                })
            }));
            assert!((2..=6).contains(&store.commits()), "{} commits of six verbs", store.commits());
        });
    }

    /// The last handle is dropped while verbs wait for the writer: each has its answer all the same.
    pub fn a_dropped_store_answers_whom_it_heard() {
        with_file(|store| {
            let threads: Vec<_> = (1..=3)
                .map(|n| {
                    let store = store.clone();
                    spawn(move || claimed(&store, &claim(id(n), n, LONG, LONG)))
                })
                .collect();
            drop(store);
            for owner in at_once(threads) {
                assert!(matches!(owner, Claimed::Owner { attempt: 1, .. }), "{owner:?}");
            }
        });
    }
}

fn claims_of_one_key(store: &(impl Store + Clone + 'static)) {
    let got = at_once((1..=3).map(|token| {
        let store = store.clone();
        spawn(move || claimed(&store, &claim(id(1), token, LONG, LONG)))
    }));
    let owners = got.iter().filter(|claimed| matches!(claimed, Claimed::Owner { attempt: 1, .. })).count();
    let others = got.iter().filter(|claimed| matches!(claimed, Claimed::InProgress { .. })).count();
    assert_eq!((owners, others), (1, 2), "{got:?}");
}

fn completion_and_takeover(store: &(impl Store + Clone + 'static)) {
    let first = claim(id(1), 1, Duration::ZERO, LONG);
    let Claimed::Owner { epoch, .. } = claimed(store, &first) else { panic!("the first claim owns") };
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

fn purge_and_claim(store: &(impl Store + Clone + 'static)) {
    let expired = claim(id(1), 1, Duration::ZERO, Duration::ZERO);
    assert!(matches!(claimed(store, &expired), Claimed::Owner { .. }));
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
    let store = roomy();
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
