//! Random histories: whatever is asked of a store, in whatever order, it answers as the protocol's rules do.
//!
//! What a store may choose is left out of the comparison: how epochs are numbered and how much time is left.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, outside of their functions"
)]

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use idem_runtime::{
    protocol::{Decision, Micros, Slot},
    store::{
        Ack, Claim, Claimed, Completion, Fingerprint, MemoryStore, PurgeLimits, Record, RecordId, State, Store, Token,
    },
};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};

/// One thing that is asked, of record `on`, by attempt `by`.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    on: u8,
    by: u8,
    verb: Verb,
}

#[derive(Clone, Debug)]
enum Verb {
    Claim { print: u8, any_print: bool, hold: bool, waiting: bool, lease: Duration, ttl: Duration },
    Renew(Duration),
    Complete { ttl: Duration, outcome: Vec<u8> },
    Release,
    Hold(Duration),
    Forget,
    Purge,
    Pass(Duration),
}

const HOUR: Duration = Duration::from_hours(1);

/// Leases and retentions of an hour or nothing: however long a store takes, it makes no difference.
pub(crate) fn timeless() -> impl Strategy<Value = Vec<Step>> {
    history(prop_oneof![3 => Just(HOUR), 1 => Just(Duration::ZERO)], 0)
}

/// Leases and retentions that run out, for a store whose clock the test moves. They never end at a moment that is
/// looked at, so that a store may number its owners by microseconds.
fn timed() -> impl Strategy<Value = Vec<Step>> {
    history((0_u64..12).prop_map(|n| Duration::from_millis(n * 10 + 5)), 6)
}

fn history(times: impl Strategy<Value = Duration> + Clone, passes: u32) -> impl Strategy<Value = Vec<Step>> {
    let print = prop_oneof![5 => Just(1), 1 => Just(2)];
    let flags = [0.1, 0.15, 0.3].map(prop::bool::weighted);
    let claim = (print, flags, times.clone(), times.clone());
    let claim = claim.prop_map(|(print, [any_print, hold, waiting], lease, ttl)| Verb::Claim {
        print,
        any_print,
        hold,
        waiting,
        lease,
        ttl,
    });
    let verb = prop_oneof![
        8 => claim,
        2 => times.clone().prop_map(Verb::Renew),
        4 => (times.clone(), vec(any::<u8>(), 0..200)).prop_map(|(ttl, outcome)| Verb::Complete { ttl, outcome }),
        1 => Just(Verb::Release),
        1 => times.prop_map(Verb::Hold),
        1 => Just(Verb::Forget),
        1 => Just(Verb::Purge),
        passes => (1_u64..6).prop_map(|n| Verb::Pass(Duration::from_millis(n * 10))),
    ];
    vec((0_u8..2, 1_u8..4, verb).prop_map(|(on, by, verb)| Step { on, by, verb }), 1..60)
}

/// Tries `cases` histories; one that fails is made as short as it can be.
pub(crate) fn try_all(
    cases: u32,
    histories: impl Strategy<Value = Vec<Step>>,
    agrees: impl Fn(&[Step]) -> Result<(), String>,
) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = |history: Vec<Step>| agrees(&history).map_err(TestCaseError::fail);
    TestRunner::new(config).run(&histories, run).unwrap_or_else(|error| panic!("{error}"));
}

/// Tries a store that others use too, from inside a runtime of several threads.
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres", feature = "redis")), expect(dead_code))]
pub(crate) fn try_store(cases: u32, store: &impl Store) {
    let wait = |history: &[Step]| {
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(agrees(store, history)))
    };
    try_all(cases, timeless(), wait);
}

/// Asks the store and the rules the same, on records that nobody else uses.
pub(crate) async fn agrees(store: &impl Store, history: &[Step]) -> Result<(), String> {
    static RECORDS: AtomicU64 = AtomicU64::new(0);
    let first = RECORDS.fetch_add(2, Relaxed);
    let ids = [first, first + 1].map(|n| RecordId::derive("history", "test", None, &n.to_be_bytes()));
    let mut rules = Rules::default();
    // What each owner remembers of its claim: by the rules, and by the store.
    let mut owners: HashMap<(u8, u8), (Fingerprint, u32, u64, u64)> = HashMap::new();
    let mut newest = [0; 2];
    for (at, step) in history.iter().enumerate() {
        let (id, token, on) = (ids[usize::from(step.on)], Token::from_bytes([step.by; 16]), usize::from(step.on));
        let (got, wanted) = match &step.verb {
            Verb::Claim { .. } => {
                let claim = claim(step, id);
                let got = store.claim(&claim).await.map_err(|error| error.to_string())?;
                let (wanted, repeated) = rules.claim(&claim);
                if let (Claimed::Owner { epoch, attempt }, Claimed::Owner { epoch: ruled, .. }) = (&got, &wanted) {
                    let grew = if repeated { *epoch == newest[on] } else { *epoch > newest[on] };
                    if !grew {
                        return Err(format!("step {at}: epoch {epoch} after {}, repeated: {repeated}", newest[on]));
                    }
                    newest[on] = *epoch;
                    owners.insert((step.on, step.by), (claim.fingerprint, *attempt, *ruled, *epoch));
                }
                (format!("{:?}", without_numbers(got)), format!("{:?}", without_numbers(wanted)))
            }
            Verb::Renew(lease) => (said(store.renew(&id, &token, *lease).await), said(rules.renew(id, token, *lease))),
            Verb::Complete { ttl, outcome } => {
                let owner = owners.get(&(step.on, step.by));
                let (fingerprint, attempt, ruled, epoch) = owner.copied().unwrap_or((print(1), 1, 1, 1));
                let outcome = Bytes::copy_from_slice(outcome);
                let completion = Completion { id, token, epoch, attempt, fingerprint, ttl: *ttl, outcome };
                let got = said(store.complete(&completion).await);
                (got, said(rules.complete(&Completion { epoch: ruled, ..completion })))
            }
            Verb::Release => (said(store.release(&id, &token).await), said(rules.release(id, token))),
            Verb::Hold(ttl) => (said(store.hold(&id, &token, *ttl).await), said(rules.hold(id, token, *ttl))),
            Verb::Forget => (said(store.forget(&id).await), said(Ok::<_, ()>(rules.forget(id)))),
            Verb::Purge => {
                rules.purge();
                (said(store.purge(PurgeLimits::default()).await.map(|purged| purged.more)), said(Ok::<_, ()>(false)))
            }
            Verb::Pass(time) => {
                rules.now += u64::try_from(time.as_millis()).unwrap();
                tokio::time::advance(*time).await;
                continue;
            }
        };
        let shown = |record: Option<Record>| record.map(|record| standing(&record));
        let record = store.get(&id).await.map_err(|error| error.to_string())?;
        let (got, wanted) = ((got, shown(record)), (wanted, shown(rules.get(id))));
        if got != wanted {
            return Err(format!("step {at}, {step:?}: got {got:?}, wanted {wanted:?}"));
        }
    }
    Ok(())
}

/// The protocol's rules over a map: the plainest store there can be.
#[derive(Default)]
struct Rules {
    /// In milliseconds.
    now: u64,
    owners: u64,
    records: HashMap<RecordId, (Slot, Option<Bytes>)>,
}

impl Rules {
    fn slot(&self, id: RecordId) -> Option<&Slot> {
        self.records.get(&id).map(|(slot, _)| slot)
    }

    fn now(&self) -> Micros {
        Micros(self.now * 1000)
    }

    /// What the claim gets, and whether it repeated one that is running.
    fn claim(&mut self, claim: &Claim) -> (Claimed, bool) {
        self.owners += 1;
        let held = self.slot(claim.id).cloned();
        let repeated = held.as_ref().is_some_and(|slot| slot.is_run_by(claim.token, self.now()));
        let claimed = match Slot::claim(held.as_ref(), claim, Micros(self.now().0 + self.owners)) {
            Decision::Own(slot) => {
                let (epoch, attempt) = (slot.epoch, slot.attempt);
                self.records.insert(claim.id, (slot, None));
                Claimed::Owner { epoch, attempt }
            }
            Decision::Replay => Claimed::Replay { outcome: self.records[&claim.id].1.clone().unwrap() },
            Decision::InProgress { .. } => Claimed::InProgress { lease_left: None },
            Decision::Unknown => Claimed::Unknown,
            Decision::Mismatch => {
                Claimed::Mismatch { stored: Bytes::copy_from_slice(held.unwrap().fingerprint.as_bytes()) }
            }
        };
        (claimed, repeated)
    }

    fn renew(&mut self, id: RecordId, token: Token, lease: Duration) -> Result<Ack, ()> {
        let now = self.now();
        let owned = self.records.get_mut(&id).filter(|(slot, _)| slot.is_run_by(token, now));
        Ok(owned.map_or(Ack::Lost, |(slot, _)| {
            slot.renew(lease, now);
            Ack::Done
        }))
    }

    fn complete(&mut self, completion: &Completion) -> Result<Ack, ()> {
        let (held, now) = (self.slot(completion.id), self.now());
        if let Some(ack) = Slot::complete(held, completion.token, now) {
            return Ok(ack);
        }
        let slot = completion.slot(held, now);
        self.records.insert(completion.id, (slot, Some(completion.outcome.clone())));
        Ok(Ack::Done)
    }

    fn release(&mut self, id: RecordId, token: Token) -> Result<Ack, ()> {
        Ok(Slot::release(self.slot(id), token, self.now()).unwrap_or_else(|| {
            self.records.remove(&id);
            Ack::Done
        }))
    }

    fn hold(&mut self, id: RecordId, token: Token, ttl: Duration) -> Result<Ack, ()> {
        let now = self.now();
        Ok(Slot::hold(self.slot(id), token, now).unwrap_or_else(|| {
            self.records.get_mut(&id).unwrap().0.settle(State::Unknown, ttl, now);
            Ack::Done
        }))
    }

    fn forget(&mut self, id: RecordId) -> bool {
        let now = self.now();
        self.records.remove(&id).is_some_and(|(slot, _)| slot.is_live(now))
    }

    fn purge(&mut self) {
        let now = self.now();
        self.records.retain(|_, (slot, _)| slot.is_live(now));
    }

    fn get(&self, id: RecordId) -> Option<Record> {
        let (slot, outcome) = self.records.get(&id).filter(|(slot, _)| slot.is_live(self.now()))?;
        Some(Record::new(slot, outcome.clone(), self.now()))
    }
}

fn print(number: u8) -> Fingerprint {
    Fingerprint::from_bytes([number; Fingerprint::LENGTH])
}

fn claim(step: &Step, id: RecordId) -> Claim {
    let Verb::Claim { print: number, any_print, hold, waiting, lease, ttl } = step.verb else { panic!("no claim") };
    Claim {
        id,
        token: Token::from_bytes([step.by; 16]),
        fingerprint: print(number),
        older_fingerprints: if any_print { vec![print(1), print(2)] } else { Vec::new() },
        hold,
        lease,
        ttl,
        waiting,
    }
}

fn said<T: std::fmt::Debug, E: std::fmt::Debug>(result: Result<T, E>) -> String {
    format!("{result:?}")
}

fn without_numbers(claimed: Claimed) -> Claimed {
    match claimed {
        Claimed::Owner { attempt, .. } => Claimed::Owner { epoch: 0, attempt },
        Claimed::InProgress { .. } => Claimed::InProgress { lease_left: None },
        other => other,
    }
}

/// What a record is at any time; whether its lease runs, and about when it is gone.
fn standing(record: &Record) -> (State, u32, bool, u64, Option<Bytes>) {
    let minutes = record.expires_in.as_secs().div_ceil(60);
    (record.state, record.attempt, !record.lease_left.is_zero(), minutes, record.outcome.clone())
}

#[test]
fn the_memory_store_decides_as_the_rules_do() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    try_all(400, timeless(), |history| runtime.block_on(async { agrees(&MemoryStore::new(), history).await }));
}

#[test]
fn the_memory_store_decides_as_the_rules_do_when_time_passes() {
    // The store is made inside the runtime too, or its clock would start at the real time.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    try_all(400, timed(), |history| runtime.block_on(async { agrees(&MemoryStore::new(), history).await }));
}
