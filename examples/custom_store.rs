//! A store of one's own: a map behind a mutex, where yours has a database.
//!
//! `cargo run --example custom_store --features conformance` runs the conformance suite on it, which says whether it keeps the contract. The rules
//! themselves are in `protocol::Slot`: a store finds what it holds, asks the rules, and writes what they say, in one atomic
//! step on its own clock.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::{
    collections::HashMap,
    error::Error,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use idem_runtime::{
    protocol::{Decision, Micros, Slot},
    store::{
        Ack, Claim, Claimed, Completion, PurgeLimits, Purged, Record, RecordId, State, Store, StoreError, Token,
        conformance,
    },
};

#[derive(Debug, Default)]
struct MapStore {
    records: Mutex<HashMap<RecordId, Stored>>,
}

/// A record, and what a completed one answers.
#[derive(Debug)]
struct Stored {
    slot: Slot,
    outcome: Option<Bytes>,
}

impl MapStore {
    /// The one lock makes every verb atomic. A database's error here would be `StoreError::fault`, and a record that can't be
    /// read a `CorruptRecord`: never an absent one, or its request would run again.
    fn lock(&self) -> MutexGuard<'_, HashMap<RecordId, Stored>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store's clock: every process that shares a store must see the same one, so a database would ask its server.
fn now() -> Micros {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Micros(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
}

impl Store for MapStore {
    fn name(&self) -> &'static str {
        "map"
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let mut records = self.lock();
        let held = records.get(&claim.id);
        Ok(match Slot::claim(held.map(|stored| &stored.slot), claim, now()) {
            Decision::Own(slot) => {
                let owner = Claimed::Owner { epoch: slot.epoch, attempt: slot.attempt };
                records.insert(claim.id, Stored { slot, outcome: None });
                owner
            }
            Decision::Replay => {
                let outcome = held.and_then(|stored| stored.outcome.clone()).unwrap_or_default();
                Claimed::Replay { outcome }
            }
            Decision::InProgress { left_ms } => {
                Claimed::InProgress { lease_left: Some(Duration::from_millis(left_ms)) }
            }
            Decision::Unknown => Claimed::Unknown,
            Decision::Mismatch => {
                let stored = held.map(|stored| Bytes::copy_from_slice(stored.slot.fingerprint.as_bytes()));
                Claimed::Mismatch { stored: stored.unwrap_or_default() }
            }
        })
    }

    async fn renew(&self, id: &RecordId, token: &Token, lease: Duration) -> Result<Ack, StoreError> {
        let (mut records, now) = (self.lock(), now());
        Ok(match records.get_mut(id).filter(|stored| stored.slot.is_run_by(*token, now)) {
            Some(stored) => {
                stored.slot.renew(lease, now);
                Ack::Done
            }
            None => Ack::Lost,
        })
    }

    async fn complete(&self, completion: &Completion) -> Result<Ack, StoreError> {
        let (mut records, now) = (self.lock(), now());
        let held = records.get(&completion.id).map(|stored| &stored.slot);
        if let Some(ack) = Slot::complete(held, completion.token, now) {
            return Ok(ack);
        }
        let slot = completion.slot(held, now);
        records.insert(completion.id, Stored { slot, outcome: Some(completion.outcome.clone()) });
        Ok(Ack::Done)
    }

    async fn release(&self, id: &RecordId, token: &Token) -> Result<Ack, StoreError> {
        let mut records = self.lock();
        if let Some(ack) = Slot::release(records.get(id).map(|stored| &stored.slot), *token, now()) {
            return Ok(ack);
        }
        records.remove(id);
        Ok(Ack::Done)
    }

    async fn hold(&self, id: &RecordId, token: &Token, ttl: Duration) -> Result<Ack, StoreError> {
        let (mut records, now) = (self.lock(), now());
        if let Some(ack) = Slot::hold(records.get(id).map(|stored| &stored.slot), *token, now) {
            return Ok(ack);
        }
        if let Some(stored) = records.get_mut(id) {
            stored.slot.settle(State::Unknown, ttl, now);
        }
        Ok(Ack::Done)
    }

    async fn get(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        let (records, now) = (self.lock(), now());
        let live = records.get(id).filter(|stored| stored.slot.is_live(now));
        Ok(live.map(|stored| Record::new(&stored.slot, stored.outcome.clone(), now)))
    }

    async fn forget(&self, id: &RecordId) -> Result<bool, StoreError> {
        Ok(self.lock().remove(id).is_some_and(|stored| stored.slot.is_live(now())))
    }

    async fn purge(&self, limits: PurgeLimits) -> Result<Purged, StoreError> {
        let (mut records, now) = (self.lock(), now());
        let mut expired: Vec<_> =
            records.iter().filter(|(_, stored)| !stored.slot.is_live(now)).map(|(id, _)| *id).collect();
        let more = expired.len() > limits.rows as usize;
        expired.truncate(limits.rows as usize);
        for id in &expired {
            records.remove(id);
        }
        Ok(Purged { removed: expired.len() as u64, more })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    conformance::run(MapStore::default()).await?;
    println!("MapStore keeps the contract");
    Ok(())
}

#[cfg(test)]
mod tests {
    #[tokio::test(flavor = "multi_thread")]
    async fn keeps_the_contract() {
        super::conformance::run(super::MapStore::default()).await.unwrap();
    }
}
