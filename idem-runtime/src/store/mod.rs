//! Where records live: the contract and the stores that keep it.

#[cfg(feature = "conformance")]
pub mod conformance;
mod dynamic;
mod error;
#[cfg(feature = "testing")]
mod fault;
mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod transaction;

use std::{future::Future, time::Duration};

use bytes::Bytes;

pub use crate::protocol::{Ack, Claim, Fingerprint, RecordId, State, Token};
use crate::protocol::{Micros, Slot};
pub use dynamic::DynStore;
pub use error::{CorruptRecord, StoreError};
#[cfg(feature = "testing")]
pub use fault::{Fault, FaultStore, Gate, Verb};
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(feature = "redis")]
pub use redis::RedisStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use transaction::{Begun, NotCommitted, OpenTransaction, Promise, Transactional};

/// What a claim got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The claimant is the owner and runs.
    Owner {
        /// The fencing token of this attempt.
        epoch: u64,
        /// 1 for the first attempt of this record, one more for each takeover.
        attempt: u32,
    },
    /// The record is completed: the stored outcome.
    Replay {
        /// What [`Completion::outcome`] was.
        outcome: Bytes,
    },
    /// Another attempt runs.
    InProgress {
        /// How much of its lease is left; `None` where the store can't tell.
        lease_left: Option<Duration>,
    },
    /// An earlier attempt's outcome is unknown, and either side says `hold`.
    Unknown,
    /// The key belongs to another request.
    Mismatch {
        /// The fingerprint the record carries, of whatever format.
        stored: Bytes,
    },
}

/// The outcome of an attempt, to be stored.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The record.
    pub id: RecordId,
    /// The attempt.
    pub token: Token,
    /// The attempt's epoch, for a record that vanished meanwhile.
    pub epoch: u64,
    /// The attempt's number, for a record that vanished meanwhile.
    pub attempt: u32,
    /// What the request was, for a record that vanished meanwhile.
    pub fingerprint: Fingerprint,
    /// Retention, from now.
    pub ttl: Duration,
    /// The outcome, opaque to the store.
    pub outcome: Bytes,
}

impl Completion {
    /// The completed record, where nothing stands in the way. `held` is what the store holds under the id, live or not.
    pub fn slot(&self, held: Option<&Slot>, now: Micros) -> Slot {
        let mut slot = Slot {
            state: State::Completed,
            token: self.token,
            epoch: held.map_or(self.epoch, |slot| slot.epoch.max(self.epoch)),
            attempt: self.attempt,
            hold: held.is_some_and(|slot| slot.hold && slot.token == self.token),
            fingerprint: self.fingerprint,
            lease_until: 0,
            expires: 0,
        };
        slot.settle(State::Completed, self.ttl, now);
        slot
    }
}

/// A record as [`Store::get`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it stands.
    pub state: State,
    /// The newest owner's fencing token.
    pub epoch: u64,
    /// How many attempts it has seen.
    pub attempt: u32,
    /// How much of its lease is left; zero once lapsed or settled.
    pub lease_left: Duration,
    /// When it is gone.
    pub expires_in: Duration,
    /// The stored outcome of a completed record.
    pub outcome: Option<Bytes>,
}

impl Record {
    /// What a slot looks like at `now`.
    pub fn new(slot: &Slot, outcome: Option<Bytes>, now: Micros) -> Self {
        Self {
            state: slot.state,
            epoch: slot.epoch,
            attempt: slot.attempt,
            lease_left: slot.lease_left(now),
            expires_in: Duration::from_millis(slot.expires.saturating_sub(now.millis())),
            outcome,
        }
    }
}

/// How much one [`Store::purge`] may take.
#[derive(Clone, Copy, Debug)]
pub struct PurgeLimits {
    /// At most this many records in one batch.
    pub rows: u32,
    /// At most about this many bytes of outcomes in one batch.
    pub bytes: u64,
    /// Stop starting batches after this long.
    pub time: Duration,
}

impl Default for PurgeLimits {
    fn default() -> Self {
        Self { rows: 1000, bytes: 16 << 20, time: Duration::from_secs(1) }
    }
}

/// What a purge did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Records removed.
    pub removed: u64,
    /// Whether the limits ended it with expired records left.
    pub more: bool,
}

/// Wakes the duplicates that wait for an attempt on this process.
///
/// A store that hears of settlements on other processes calls [`wake`](Self::wake); see [`Store::listen`].
#[derive(Clone, Debug, Default)]
pub struct Wakeups(pub(crate) std::sync::Arc<crate::engine::Waiters>);

impl Wakeups {
    /// Wakes this process's duplicates of `id`; cheap where nobody waits.
    pub fn wake(&self, id: &RecordId) {
        self.0.wake(id);
    }

    /// Wakes every waiting duplicate, for a store that may have missed a notification.
    pub fn wake_all(&self) {
        self.0.wake_all();
    }

    /// Ends once `id` is woken after this call, for tests of a store that listens.
    #[cfg(any(feature = "conformance", feature = "testing"))]
    pub fn woken(&self, id: &RecordId) -> impl Future<Output = ()> + Send + use<> {
        let waiting = self.0.join(*id).map(|place| (place.next(), place));
        async move {
            if let Some((woken, _place)) = waiting {
                woken.await;
            }
        }
    }
}

/// What [`Store::immediate`] gives: verbs of [`Store`] that answer at once. None may wait for anything but a lock that is held
/// for a moment.
pub trait Immediate: Send + Sync {
    /// [`Store::claim`].
    fn claim_now(&self, claim: &Claim) -> Result<Claimed, StoreError>;

    /// [`Store::complete`].
    fn complete_now(&self, completion: &Completion) -> Result<Ack, StoreError>;

    /// [`Store::release`].
    fn release_now(&self, id: &RecordId, token: &Token) -> Result<Ack, StoreError>;

    /// [`Store::hold`].
    fn hold_now(&self, id: &RecordId, token: &Token, ttl: Duration) -> Result<Ack, StoreError>;
}

/// A place that keeps records.
///
/// Every verb is atomic on its own: two calls on one id never interleave. The store's clock decides what has lapsed or
/// expired, never the caller's; a record lives while `expires > now` in milliseconds, and an expired record is treated as
/// absent by every verb, purged or not. A lost race is an outcome, never an error.
///
/// A future that was polled once is never dropped half-way: the engine drives every call to its end.
pub trait Store: Send + Sync + 'static {
    /// A short lower-case name for errors and metrics.
    fn name(&self) -> &'static str;

    /// Makes the claimant the owner, or says why not. Compares the fingerprint in every state.
    ///
    /// The epoch of a new owner is `max(old + 1, clock in microseconds)`; the same token claiming again keeps its epoch
    /// and gets a full lease. The record then expires after `lease + ttl`.
    fn claim(&self, claim: &Claim) -> impl Future<Output = Result<Claimed, StoreError>> + Send;

    /// Gives the owner a full lease again; the expiry stays.
    fn renew(
        &self,
        id: &RecordId,
        token: &Token,
        lease: Duration,
    ) -> impl Future<Output = Result<Ack, StoreError>> + Send;

    /// Stores the outcome for `ttl` from now. Repeated, it is [`Ack::Done`] and changes nothing; on an absent record it
    /// stores the outcome; on another attempt's record it is [`Ack::Lost`].
    fn complete(&self, completion: &Completion) -> impl Future<Output = Result<Ack, StoreError>> + Send;

    /// Forgets the claim; also [`Ack::Done`] when the record is absent.
    fn release(&self, id: &RecordId, token: &Token) -> impl Future<Output = Result<Ack, StoreError>> + Send;

    /// Marks the outcome unknown for `ttl` from now. Repeated, it is [`Ack::Done`]; on an absent record [`Ack::Lost`].
    fn hold(&self, id: &RecordId, token: &Token, ttl: Duration)
    -> impl Future<Output = Result<Ack, StoreError>> + Send;

    /// The record as it is, for operators and tests.
    fn get(&self, id: &RecordId) -> impl Future<Output = Result<Option<Record>, StoreError>> + Send;

    /// Removes the record whatever its state. Says whether there was one.
    fn forget(&self, id: &RecordId) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Removes expired records in bounded batches that block nobody, checking the expiry again as it deletes.
    fn purge(&self, limits: PurgeLimits) -> impl Future<Output = Result<Purged, StoreError>> + Send;

    /// Called once, inside the runtime, before the first claim: a store that hears of settlements elsewhere starts
    /// listening and wakes the local waiters. Polling stands behind it, so doing nothing is right too.
    fn listen(&self, wakeups: Wakeups) {
        drop(wakeups);
    }

    /// The verbs of a request for a store that never waits, as one in this process's memory: the same as the others, without
    /// a future and a task for each. `None` where the store asks somebody.
    fn immediate(&self) -> Option<&dyn Immediate> {
        None
    }

    /// How this store writes records in the handler's own transaction; `None` where it has no transactions to share.
    fn transactional(&self) -> Option<&dyn Transactional> {
        None
    }
}
