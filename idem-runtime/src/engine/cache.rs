//! Completed outcomes at hand, so that a replay asks no store.
//!
//! The store stays the truth. A place is taken before the store is asked, and filled only if nobody has doubted the
//! record meanwhile: an answer that was on its way while the record was forgotten finds no place.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;

use crate::protocol::{Fingerprint, Reading, RecordId};

/// How long another process's `forget` may go unseen.
const LONGEST: Duration = Duration::from_mins(1);
/// Few enough that the largest answer a handler keeps by default fits a sixteenth of a useful size.
const SHARDS: usize = 16;
/// What a place costs beside its outcome: map slot, order and the allocator's share.
const PLACE_BYTES: usize = 384;

/// Completed outcomes of one store, bounded by bytes; the oldest make room.
pub(crate) struct LocalCache {
    shards: [Mutex<Shard>; SHARDS],
    /// How many bytes a shard may hold.
    room: usize,
}

#[derive(Default)]
struct Shard {
    places: HashMap<RecordId, Place>,
    /// The places by age.
    order: BTreeMap<u64, RecordId>,
    newest: u64,
    used: usize,
}

struct Place {
    number: u64,
    /// `None` until the store has answered.
    answer: Option<Cached>,
}

struct Cached {
    fingerprint: Fingerprint,
    outcome: Bytes,
    /// From before the store was asked, so that the record outlives this.
    since: Reading,
    life: Duration,
}

impl Place {
    fn bytes(&self) -> usize {
        PLACE_BYTES + self.answer.as_ref().map_or(0, |answer| answer.outcome.len())
    }
}

/// A place to be filled; dropped unfilled, it is free again.
pub(super) struct Reserved {
    cache: Arc<LocalCache>,
    id: RecordId,
    number: u64,
}

impl LocalCache {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), room: bytes / SHARDS }
    }

    /// The outcome of a completed record, and which request's it is.
    pub(super) fn get(&self, id: &RecordId, now: Reading) -> Option<(Fingerprint, Bytes)> {
        let mut shard = self.lock(id);
        let answer = shard.places.get(id)?.answer.as_ref()?;
        if now.since(answer.since) < answer.life {
            return Some((answer.fingerprint, answer.outcome.clone()));
        }
        shard.remove(id);
        None
    }

    /// Takes the place of a record that is about to be completed.
    pub(super) fn reserve(self: &Arc<Self>, id: RecordId) -> Option<Reserved> {
        let mut shard = self.lock(&id);
        shard.remove(&id);
        if PLACE_BYTES > self.room {
            return None;
        }
        shard.newest += 1;
        let number = shard.newest;
        shard.order.insert(number, id);
        shard.used += PLACE_BYTES;
        shard.places.insert(id, Place { number, answer: None });
        shard.make_room(self.room);
        drop(shard);
        Some(Reserved { cache: Arc::clone(self), id, number })
    }

    /// Takes the place of a record that is about to be read, unless somebody reads it already.
    pub(super) fn reserve_vacant(self: &Arc<Self>, id: RecordId) -> Option<Reserved> {
        let taken = self.lock(&id).places.contains_key(&id);
        if taken { None } else { self.reserve(id) }
    }

    /// The store said, or is about to, that the record is not completed: drops what is here and what is on its way.
    pub(super) fn doubt(&self, id: &RecordId) {
        self.lock(id).remove(id);
    }

    /// Drops everything, also what is on its way.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            // Numbers go on, so that what is on its way finds no place.
            *shard = Shard { newest: shard.newest, ..Shard::default() };
        }
    }

    /// Frees what is too old to be used.
    pub(super) fn free_expired(&self, now: Reading) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            let old =
                |place: &Place| place.answer.as_ref().is_some_and(|answer| now.since(answer.since) >= answer.life);
            let expired: Vec<_> = shard.places.iter().filter(|(_, place)| old(place)).map(|(id, _)| *id).collect();
            for id in expired {
                shard.remove(&id);
            }
        }
    }

    fn lock(&self, id: &RecordId) -> MutexGuard<'_, Shard> {
        let [.., last] = id.as_bytes();
        let at = usize::from(*last) % SHARDS;
        #[expect(clippy::indexing_slicing, reason = "the index is below SHARDS")]
        lock(&self.shards[at])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    fn remove(&mut self, id: &RecordId) {
        if let Some(place) = self.places.remove(id) {
            self.order.remove(&place.number);
            self.used -= place.bytes();
        }
    }

    fn make_room(&mut self, room: usize) {
        while self.used > room
            && let Some((_, id)) = self.order.first_key_value()
        {
            let id = *id;
            self.remove(&id);
        }
    }
}

impl Reserved {
    /// Puts in what the store keeps for `ttl` at least, counted from `since`. Nothing, if the place is gone.
    pub(super) fn fill(self, fingerprint: Fingerprint, outcome: &[u8], since: Reading, ttl: Duration) {
        let mut shard = self.cache.lock(&self.id);
        if let Some(place) = shard.places.get_mut(&self.id)
            && place.number == self.number
        {
            // A copy: the bytes may be a small part of what the driver read.
            let outcome = Bytes::copy_from_slice(outcome);
            let bytes = outcome.len();
            place.answer = Some(Cached { fingerprint, outcome, since, life: ttl.min(LONGEST) });
            shard.used += bytes;
            shard.make_room(self.cache.room);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut shard = self.cache.lock(&self.id);
        let unfilled = |place: &Place| place.number == self.number && place.answer.is_none();
        if shard.places.get(&self.id).is_some_and(unfilled) {
            shard.remove(&self.id);
        }
    }
}

impl fmt::Debug for LocalCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCache").field("room", &self.room).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Reading {
        Reading { monotonic: Duration::from_secs(seconds), wall: Duration::from_secs(1_000_000 + seconds) }
    }

    fn id(n: u8) -> RecordId {
        let mut bytes = [0; 32];
        bytes[0] = n;
        RecordId::from_bytes(bytes)
    }

    fn print(n: u8) -> Fingerprint {
        Fingerprint::from_bytes([n; Fingerprint::LENGTH])
    }

    fn cache(places: usize) -> Arc<LocalCache> {
        Arc::new(LocalCache::new(SHARDS * places * (PLACE_BYTES + 100)))
    }

    fn fill(cache: &Arc<LocalCache>, n: u8, ttl: Duration) {
        cache.reserve(id(n)).unwrap().fill(print(n), &[n; 100], at(0), ttl);
    }

    fn has(cache: &LocalCache, n: u8, seconds: u64) -> bool {
        cache.get(&id(n), at(seconds)).is_some()
    }

    fn used(cache: &LocalCache) -> usize {
        cache.shards.iter().map(|shard| lock(shard).used).sum()
    }

    #[test]
    fn an_outcome_is_here_with_its_fingerprint() {
        let cache = cache(10);
        fill(&cache, 1, LIFE);
        assert_eq!(cache.get(&id(1), at(9)), Some((print(1), Bytes::from(vec![1; 100]))));
        assert_eq!(cache.get(&id(2), at(9)), None);
    }

    #[test]
    fn it_goes_before_the_record_does_and_after_a_minute() {
        let cache = cache(10);
        fill(&cache, 1, LIFE);
        fill(&cache, 2, Duration::from_hours(24));
        assert!(has(&cache, 1, 9) && has(&cache, 2, 59));
        assert!(!has(&cache, 1, 10) && !has(&cache, 2, 60));
        assert_eq!(used(&cache), 0);
    }

    #[test]
    fn either_clock_ends_it() {
        for (monotonic, wall) in [(10, 0), (0, 10)] {
            let cache = cache(10);
            fill(&cache, 1, LIFE);
            let now = Reading { monotonic: Duration::from_secs(monotonic), wall: at(wall).wall };
            assert_eq!(cache.get(&id(1), now), None, "{now:?}");
        }
    }

    #[test]
    fn what_was_forgotten_while_it_was_on_its_way_finds_no_place() {
        let cache = cache(10);
        let completing = cache.reserve(id(1)).unwrap();
        cache.doubt(&id(1));
        completing.fill(print(1), b"old", at(0), LIFE);
        assert!(!has(&cache, 1, 0));
        // Nor does it take the place of a later one.
        let [old, new] = [(); 2].map(|()| cache.reserve(id(1)).unwrap());
        old.fill(print(1), b"old", at(0), LIFE);
        assert!(!has(&cache, 1, 0));
        new.fill(print(2), b"new", at(0), LIFE);
        assert_eq!(cache.get(&id(1), at(0)).unwrap().1, "new");
        let clearing = cache.reserve(id(2)).unwrap();
        cache.clear();
        clearing.fill(print(2), b"old", at(0), LIFE);
        assert_eq!(used(&cache), 0);
    }

    #[test]
    fn one_reads_for_all() {
        let cache = cache(10);
        let reading = cache.reserve_vacant(id(1)).unwrap();
        assert!(cache.reserve_vacant(id(1)).is_none());
        drop(reading);
        assert_eq!(used(&cache), 0);
        cache.reserve_vacant(id(1)).unwrap().fill(print(1), b"read", at(0), LIFE);
        assert!(cache.reserve_vacant(id(1)).is_none());
    }

    #[test]
    fn the_oldest_make_room() {
        let cache = cache(3);
        (1..=4).for_each(|n| fill(&cache, n, LIFE));
        assert_eq!([1, 2, 3, 4].map(|n| has(&cache, n, 0)), [false, true, true, true]);
        cache.reserve(id(5)).unwrap().fill(print(5), &[0; 10_000], at(0), LIFE);
        assert!(!has(&cache, 5, 0), "larger than all its room");
        assert!(used(&cache) <= cache.room);
    }

    #[test]
    fn no_use_keeps_it_within_its_bytes() {
        let cache = Arc::new(LocalCache::new(100_000));
        let mut reserved = Vec::new();
        for n in 0..20_000_u32 {
            let mut bytes = [0; 32];
            bytes[28..].copy_from_slice(&(n * 7 % 5000).to_be_bytes());
            let id = RecordId::from_bytes(bytes);
            match n % 5 {
                0 => reserved.extend(cache.reserve(id)),
                1 => cache.doubt(&id),
                2 => reserved.truncate(10),
                _ => {
                    let size = n as usize % 3000;
                    cache.reserve(id).unwrap().fill(print(1), &vec![0; size], at(0), LIFE);
                }
            }
            assert!(used(&cache) <= 100_000, "{} after {n}", used(&cache));
        }
        drop(reserved);
        cache.free_expired(at(10));
        assert_eq!(used(&cache), 0);
        assert!(cache.shards.iter().all(|shard| lock(shard).places.is_empty() && lock(shard).order.is_empty()));
    }
}
