//! One lock's worth of records, ordered by expiry on the side.

use std::{
    borrow::Borrow,
    collections::HashSet,
    hash::{BuildHasherDefault, Hash, Hasher},
    sync::Arc,
};

use super::expiries::{Expiries, IndexKey};
use crate::protocol::{Micros, RecordId, Slot, State};

/// What a record costs beside its outcome: entry, set slot and index, with the allocator's share.
pub(super) const RECORD_BYTES: usize = 256;

/// A record and its outcome.
pub(super) struct Entry {
    pub(super) id: RecordId,
    pub(super) slot: Slot,
    pub(super) outcome: Option<Arc<[u8]>>,
}

impl Entry {
    /// What it takes of the store's budget.
    pub(super) fn bytes(&self) -> usize {
        RECORD_BYTES + self.outcome.as_ref().map_or(0, |outcome| outcome.len())
    }

    fn index_key(&self) -> IndexKey {
        (self.slot.expires, hash(self.id.as_bytes()))
    }
}

/// The records whose ids fall to one lock.
#[derive(Default)]
pub(super) struct Shard {
    held: HashSet<Held, BuildHasherDefault<IdHasher>>,
    running: Expiries,
    settled: Expiries,
    newest: u64,
}

impl Shard {
    /// A moment later than every one given out before, so that no two owners share an epoch.
    pub(super) fn unique(&mut self, now: Micros) -> Micros {
        self.newest = now.0.max(self.newest + 1);
        Micros(self.newest)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn get(&self, id: &RecordId) -> Option<&Entry> {
        self.held.get(id).map(|held| &*held.entry)
    }

    /// Takes a record out, to put it back changed or to forget it.
    pub(super) fn take(&mut self, id: &RecordId) -> Option<Box<Entry>> {
        let entry = self.held.take(id)?.entry;
        let key = entry.index_key();
        self.index(entry.slot.state).remove(&key);
        // Another id with this hash may have stood behind the same key.
        if let Some(other) = self.held.get(&IdHash(key.1)) {
            let (state, key) = (other.entry.slot.state, other.entry.index_key());
            self.index(state).insert(key);
        }
        Some(entry)
    }

    /// Puts in a record that is not there.
    pub(super) fn put(&mut self, entry: Box<Entry>) {
        let key = entry.index_key();
        self.index(entry.slot.state).insert(key);
        self.held.insert(Held { hash: IdHash(key.1), entry });
    }

    fn index(&mut self, state: State) -> &mut Expiries {
        match state {
            // A held record is kept like a claim: without it the handler would run again.
            State::InProgress | State::Unknown => &mut self.running,
            State::Completed => &mut self.settled,
        }
    }

    /// When the first record that may go is gone by itself: a settled one, or any that has expired.
    pub(super) fn first_evictable(&self, now: Micros) -> Option<u64> {
        let expired = self.running.first().filter(|(expires, _)| *expires <= now.millis());
        expired.into_iter().chain(self.settled.first()).map(|(expires, _)| expires).min()
    }

    /// Takes out a record that [`first_evictable`](Self::first_evictable) spoke of.
    pub(super) fn evict(&mut self, now: Micros) -> Option<Box<Entry>> {
        self.take_expired(now).or_else(|| {
            let key = self.settled.first()?;
            self.take_indexed(key, |slot| slot.state != State::InProgress && slot.expires == key.0)
        })
    }

    pub(super) fn has_expired(&self, now: Micros) -> bool {
        self.first().is_some_and(|(expires, _)| expires <= now.millis())
    }

    fn first(&self) -> Option<IndexKey> {
        self.running.first().into_iter().chain(self.settled.first()).min()
    }

    /// Takes out one expired record.
    pub(super) fn take_expired(&mut self, now: Micros) -> Option<Box<Entry>> {
        while let Some(key) = self.first()
            && key.0 <= now.millis()
        {
            let taken = self.take_indexed(key, |slot| !slot.is_live(now));
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Takes out the record of an index key if it `fits`; an entry that leads nowhere else is dropped from the index.
    ///
    /// Two ids may have one hash: either record will do, as long as it fits.
    fn take_indexed(&mut self, key: IndexKey, fits: impl Fn(&Slot) -> bool) -> Option<Box<Entry>> {
        let id = self.held.get(&IdHash(key.1)).filter(|held| fits(&held.entry.slot)).map(|held| held.entry.id);
        if id.is_none() {
            self.running.remove(&key);
            self.settled.remove(&key);
        }
        self.take(&id?)
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.held.capacity() + self.running.slots() + self.settled.slots()
    }

    /// Gives back the room of records that are gone.
    pub(super) fn shrink(&mut self) {
        if self.held.len() < self.held.capacity() / 4 {
            self.held.shrink_to(self.held.len() * 2);
        }
        self.running.shrink();
        self.settled.shrink();
    }
}

/// An entry beside its hash, so that growing the set touches no entry.
struct Held {
    hash: IdHash,
    entry: Box<Entry>,
}

impl Hash for Held {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.entry.id == other.entry.id
    }
}

impl Eq for Held {}

impl Borrow<RecordId> for Held {
    fn borrow(&self) -> &RecordId {
        &self.entry.id
    }
}

impl Borrow<IdHash> for Held {
    fn borrow(&self) -> &IdHash {
        &self.hash
    }
}

/// The hash of an id. Looking up by it finds some record with that hash.
#[derive(PartialEq, Eq, Hash)]
struct IdHash(u64);

/// Ids are SHA-256 already: folding one into eight bytes is hash enough, and a caller who can find two that fold alike
/// gains a slower look-up of two records.
fn hash(id: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    id.chunks_exact(8).fold(0, |folded: u64, word| {
        let word = word.try_into().map_or(0, u64::from_be_bytes);
        folded.wrapping_mul(ODD).wrapping_add(word)
    })
}

#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, id: &[u8]) {
        self.0 = hash(id);
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
    /// The length of an id says nothing.
    fn write_usize(&mut self, _: usize) {}
    fn finish(&self) -> u64 {
        self.0
    }
}
