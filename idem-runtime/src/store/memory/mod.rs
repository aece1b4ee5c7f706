//! Records in this process's memory.

mod expiries;
mod shard;
mod sweep;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use tokio::{task::yield_now, time::Instant};

use self::shard::{Entry, Shard};
use super::{
    Ack, Claim, Claimed, Completion, Immediate, PurgeLimits, Purged, Record, RecordId, Store, StoreError, Token,
};
use crate::{
    protocol::{Decision, Micros, Slot, State},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

/// So many that a growing shard, whose lock is held meanwhile, is a small part of the whole.
const SHARDS: usize = 64;
const DEFAULT_CAPACITY: usize = 256 << 20;

/// Keeps records in this process's memory: nothing survives the process, and no other process sees them.
///
/// It is bounded by bytes. When it is full, the completed record that is nearest to its expiry makes room, and its request
/// would run again; a running attempt and a held record are never evicted, so a store full of them refuses new claims with
/// a fault. Expired records are freed in the background. Time is tokio's, so that a test may pause and advance it.
///
/// A clone is the same store.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    shards: [Mutex<Shard>; SHARDS],
    capacity: usize,
    used: AtomicUsize,
    sweeping: AtomicBool,
    clock: Box<dyn Fn() -> Micros + Send + Sync>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("used_bytes", &self.used_bytes())
            .field("capacity_bytes", &self.shared.capacity)
            .finish()
    }
}

impl MemoryStore {
    /// A store of 256 MiB, about a million small records.
    pub fn new() -> Self {
        Self::with_capacity_bytes(DEFAULT_CAPACITY)
    }

    /// A store that keeps records of about `capacity` bytes in all, its own bookkeeping included.
    ///
    /// Outcomes of attempts that were admitted are always taken, so their size may exceed it for a while.
    pub fn with_capacity_bytes(capacity: usize) -> Self {
        let (start, wall) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        Self::with_clock(capacity, move || {
            Micros(u64::try_from((wall + start.elapsed()).as_micros()).unwrap_or(u64::MAX))
        })
    }

    fn with_clock(capacity: usize, clock: impl Fn() -> Micros + Send + Sync + 'static) -> Self {
        let shared = Shared {
            shards: std::array::from_fn(|_| Mutex::default()),
            capacity,
            used: AtomicUsize::new(0),
            sweeping: AtomicBool::new(false),
            clock: Box::new(clock),
        };
        Self { shared: Arc::new(shared) }
    }

    /// How much of its capacity is in use, expired records that are not yet freed included.
    pub fn used_bytes(&self) -> usize {
        self.shared.used.load(Relaxed)
    }

    fn claim_it(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        loop {
            let mut shard = self.shared.lock(&claim.id);
            let now = shard.unique(self.shared.now());
            let held = shard.get(&claim.id);
            let slot = match Slot::claim(held.map(|entry| &entry.slot), claim, now) {
                Decision::Own(slot) => slot,
                refused => return Ok(answer(refused, held)),
            };
            if held.is_none() && !self.shared.fits(shard::RECORD_BYTES) {
                drop(shard);
                if !self.shared.make_room(shard::RECORD_BYTES) {
                    return Err(StoreError::fault("the memory store is full of running attempts"));
                }
                continue;
            }
            let owner = Claimed::Owner { epoch: slot.epoch, attempt: slot.attempt };
            let held = if held.is_some() { shard.take(&claim.id) } else { None };
            self.shared.put(&mut shard, held, Entry { id: claim.id, slot, outcome: None });
            drop(shard);
            sweep::start(&self.shared);
            return Ok(owner);
        }
    }

    fn complete_it(&self, completion: &Completion) -> Ack {
        let outcome = Arc::from(completion.outcome.as_ref());
        let mut shard = self.shared.lock(&completion.id);
        let now = self.shared.now();
        let held = shard.get(&completion.id).map(|entry| &entry.slot);
        if let Some(ack) = Slot::complete(held, completion.token, now) {
            return ack;
        }
        let slot = completion.slot(held, now);
        let held = shard.take(&completion.id);
        self.shared.put(&mut shard, held, Entry { id: completion.id, slot, outcome: Some(outcome) });
        drop(shard);
        self.shared.make_room(0);
        sweep::start(&self.shared);
        Ack::Done
    }

    /// Changes a record that `verdict` lets the owner change.
    fn change(
        &self,
        id: &RecordId,
        verdict: impl FnOnce(Option<&Slot>, Micros) -> Option<Ack>,
        change: impl FnOnce(&mut Slot, Micros),
    ) -> Ack {
        let mut shard = self.shared.lock(id);
        let now = self.shared.now();
        if let Some(ack) = verdict(shard.get(id).map(|entry| &entry.slot), now) {
            return ack;
        }
        if let Some(mut entry) = shard.take(id) {
            change(&mut entry.slot, now);
            shard.put(entry);
        }
        Ack::Done
    }
}

impl Shared {
    fn now(&self) -> Micros {
        (self.clock)()
    }

    #[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "the index is below SHARDS")]
    fn shard(&self, id: &RecordId) -> &Mutex<Shard> {
        let at = id.prefix() % SHARDS as u64;
        &self.shards[at as usize]
    }

    fn lock(&self, id: &RecordId) -> MutexGuard<'_, Shard> {
        lock(self.shard(id))
    }

    fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| lock(shard).is_empty())
    }

    /// Puts in an entry in the place of the one that was taken out.
    fn put(&self, shard: &mut Shard, held: Option<Box<Entry>>, entry: Entry) {
        self.used.fetch_add(entry.bytes(), Relaxed);
        shard.put(match held {
            Some(mut held) => {
                self.used.fetch_sub(held.bytes(), Relaxed);
                *held = entry;
                held
            }
            None => Box::new(entry),
        });
    }

    fn fits(&self, bytes: usize) -> bool {
        self.used.load(Relaxed).saturating_add(bytes) <= self.capacity
    }

    /// Evicts until `bytes` more would fit. Says whether they would.
    fn make_room(&self, bytes: usize) -> bool {
        while !self.fits(bytes) {
            let now = self.now();
            let first = self.shards.iter().filter_map(|shard| Some((lock(shard).first_evictable(now)?, shard)));
            let Some((_, shard)) = first.min_by_key(|(expires, _)| *expires) else { return false };
            if let Some(entry) = lock(shard).evict(now) {
                self.used.fetch_sub(entry.bytes(), Relaxed);
            }
        }
        true
    }

    fn has_expired(&self) -> bool {
        let now = self.now();
        self.shards.iter().any(|shard| lock(shard).has_expired(now))
    }

    /// Frees at most `rows` expired records of a shard.
    fn free_expired(&self, shard: &Mutex<Shard>, rows: u32) -> u32 {
        let mut shard = lock(shard);
        let now = self.now();
        let mut freed = 0;
        while freed < rows
            && let Some(entry) = shard.take_expired(now)
        {
            self.used.fetch_sub(entry.bytes(), Relaxed);
            freed += 1;
        }
        if freed > 0 {
            shard.shrink();
        }
        freed
    }
}

/// A panic elsewhere leaves a shard whole: no code of ours can panic between two of its changes.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a refused claim is told.
fn answer(refused: Decision, held: Option<&Entry>) -> Claimed {
    match (refused, held) {
        (Decision::Replay, Some(Entry { outcome: Some(outcome), .. })) => {
            Claimed::Replay { outcome: Bytes::from_owner(Arc::clone(outcome)) }
        }
        (Decision::InProgress { left_ms }, _) => {
            Claimed::InProgress { lease_left: Some(Duration::from_millis(left_ms)) }
        }
        (Decision::Mismatch, Some(entry)) => {
            Claimed::Mismatch { stored: Bytes::copy_from_slice(entry.slot.fingerprint.as_bytes()) }
        }
        // Replay without an outcome can't be: completion writes both under one lock. Refusing is safe all the same.
        _ => Claimed::Unknown,
    }
}

impl Immediate for MemoryStore {
    fn claim_now(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.claim_it(claim)
    }

    fn complete_now(&self, completion: &Completion) -> Result<Ack, StoreError> {
        Ok(self.complete_it(completion))
    }

    fn release_now(&self, id: &RecordId, token: &Token) -> Result<Ack, StoreError> {
        let mut shard = self.shared.lock(id);
        let ack = Slot::release(shard.get(id).map(|entry| &entry.slot), *token, self.shared.now());
        if ack.is_none()
            && let Some(entry) = shard.take(id)
        {
            self.shared.used.fetch_sub(entry.bytes(), Relaxed);
        }
        Ok(ack.unwrap_or(Ack::Done))
    }

    fn hold_now(&self, id: &RecordId, token: &Token, ttl: Duration) -> Result<Ack, StoreError> {
        let verdict = |held: Option<&Slot>, now| Slot::hold(held, *token, now);
        Ok(self.change(id, verdict, |slot, now| slot.settle(State::Unknown, ttl, now)))
    }
}

impl Store for MemoryStore {
    fn name(&self) -> &'static str {
        "memory"
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.claim_it(claim)
    }

    async fn renew(&self, id: &RecordId, token: &Token, lease: Duration) -> Result<Ack, StoreError> {
        let lost =
            |held: Option<&Slot>, now| (!held.is_some_and(|slot| slot.is_run_by(*token, now))).then_some(Ack::Lost);
        Ok(self.change(id, lost, |slot, now| slot.renew(lease, now)))
    }

    async fn complete(&self, completion: &Completion) -> Result<Ack, StoreError> {
        Ok(self.complete_it(completion))
    }

    async fn release(&self, id: &RecordId, token: &Token) -> Result<Ack, StoreError> {
        self.release_now(id, token)
    }

    async fn hold(&self, id: &RecordId, token: &Token, ttl: Duration) -> Result<Ack, StoreError> {
        self.hold_now(id, token, ttl)
    }

    fn immediate(&self) -> Option<&dyn Immediate> {
        Some(self)
    }

    async fn get(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        let shard = self.shared.lock(id);
        let now = self.shared.now();
        Ok(shard
            .get(id)
            .filter(|entry| entry.slot.is_live(now))
            .map(|entry| Record::new(&entry.slot, entry.outcome.clone().map(Bytes::from_owner), now)))
    }

    async fn forget(&self, id: &RecordId) -> Result<bool, StoreError> {
        let mut shard = self.shared.lock(id);
        let now = self.shared.now();
        let Some(entry) = shard.take(id) else { return Ok(false) };
        self.shared.used.fetch_sub(entry.bytes(), Relaxed);
        Ok(entry.slot.is_live(now))
    }

    async fn purge(&self, limits: PurgeLimits) -> Result<Purged, StoreError> {
        let start = Instant::now();
        let mut purged = Purged::default();
        loop {
            // Freeing a record takes as long whatever its size, so the rows bound a batch.
            let mut left = limits.rows.max(1);
            for shard in &self.shared.shards {
                while left > 0 {
                    // No more at once than a claim on this shard may wait for.
                    let most = left.min(128);
                    let freed = self.shared.free_expired(shard, most);
                    left -= freed;
                    if freed < most {
                        break;
                    }
                    yield_now().await;
                }
            }
            purged.removed += u64::from(limits.rows.max(1) - left);
            purged.more = left == 0 && self.shared.has_expired();
            if !purged.more || start.elapsed() >= limits.time {
                return Ok(purged);
            }
            yield_now().await;
        }
    }
}
