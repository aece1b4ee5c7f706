//! Random histories: the scripts decide as the pure rules do.

use std::collections::HashMap;

use idem_runtime::{
    protocol::{Decision, Micros, Slot},
    store::{Ack, Claim, Claimed, Completion, RecordId, State, Store as _, Token},
};
use idem_tests::redis::RedisCluster;

use super::*;

/// The rules of `protocol`, at a moment that never passes: leases and retentions are an hour or nothing.
#[derive(Default)]
struct Model(HashMap<RecordId, (Slot, Bytes)>);

const NOW: Micros = Micros(1_700_000_000_000_000);

impl Model {
    fn live(&self, id: &RecordId) -> Option<&(Slot, Bytes)> {
        self.0.get(id).filter(|(slot, _)| slot.is_live(NOW))
    }

    fn claim(&mut self, claim: &Claim) -> Claimed {
        let held = self.0.get(&claim.id).cloned();
        match Slot::claim(held.as_ref().map(|(slot, _)| slot), claim, NOW) {
            Decision::Own(slot) => {
                let (epoch, attempt) = (slot.epoch, slot.attempt);
                self.0.insert(claim.id, (slot, Bytes::new()));
                Claimed::Owner { epoch, attempt }
            }
            Decision::Replay => Claimed::Replay { outcome: held.unwrap().1 },
            Decision::InProgress { .. } => Claimed::InProgress { lease_left: None },
            Decision::Unknown => Claimed::Unknown,
            Decision::Mismatch => {
                Claimed::Mismatch { stored: Bytes::copy_from_slice(held.unwrap().0.fingerprint.as_bytes()) }
            }
        }
    }

    fn run_by(&mut self, id: &RecordId, token: Token) -> Option<&mut Slot> {
        self.0.get_mut(id).map(|(slot, _)| slot).filter(|slot| slot.is_run_by(token, NOW))
    }

    fn renew(&mut self, id: &RecordId, token: Token, lease: Duration) -> Ack {
        let Some(slot) = self.run_by(id, token) else { return Ack::Lost };
        slot.lease_until = after(lease);
        Ack::Done
    }

    fn complete(&mut self, completion: &Completion) -> Ack {
        let held = self.live(&completion.id).map(|(slot, _)| slot.clone());
        if let Some(ack) = Slot::complete(held.as_ref(), completion.token, NOW) {
            return ack;
        }
        let mut slot = held.unwrap_or(Slot {
            state: State::Completed,
            token: completion.token,
            epoch: completion.epoch,
            attempt: completion.attempt,
            hold: false,
            fingerprint: completion.fingerprint,
            lease_until: 0,
            expires: 0,
        });
        (slot.state, slot.expires) = (State::Completed, after(completion.ttl));
        self.0.insert(completion.id, (slot, completion.outcome.clone()));
        Ack::Done
    }

    fn release(&mut self, id: &RecordId, token: Token) -> Ack {
        if self.live(id).is_some() && self.run_by(id, token).is_none() {
            return Ack::Lost;
        }
        self.0.remove(id);
        Ack::Done
    }

    fn hold(&mut self, id: &RecordId, token: Token, ttl: Duration) -> Ack {
        if let Some(slot) = self.run_by(id, token) {
            (slot.state, slot.expires) = (State::Unknown, after(ttl));
            return Ack::Done;
        }
        let held = self.live(id).is_some_and(|(slot, _)| slot.state == State::Unknown && slot.token == token);
        if held { Ack::Done } else { Ack::Lost }
    }
}

fn after(duration: Duration) -> u64 {
    NOW.millis() + u64::try_from(duration.as_millis()).unwrap()
}

/// A small generator whose whole history follows from its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn small(&mut self, sides: u64) -> u8 {
        self.roll(sides).try_into().unwrap()
    }

    /// An hour, or sometimes nothing.
    fn time(&mut self) -> Duration {
        if self.roll(4) == 0 { Duration::ZERO } else { HOUR }
    }
}

async fn compare(store: &RedisStore, seed: u64, steps: usize) {
    let mut dice = Dice(seed);
    let mut model = Model::default();
    let mut epochs = HashMap::new();
    let mut seen = String::new();
    for step in 0..steps {
        let on = seed * 1000 + dice.roll(3);
        let by = dice.small(3);
        let (id, token) = (id(on), token(by));
        let (verb, got, wanted) = match dice.roll(10) {
            0..=4 => {
                let claim = Claim {
                    fingerprint: print(u8::from(dice.roll(6) == 0)),
                    older_fingerprints: if dice.roll(8) == 0 { vec![print(0), print(1)] } else { vec![] },
                    hold: dice.roll(6) == 0,
                    lease: dice.time(),
                    ttl: dice.time(),
                    waiting: dice.roll(2) == 0,
                    ..claim(on, by)
                };
                let (got, wanted) = (store.claim(&claim).await.unwrap(), model.claim(&claim));
                if let Claimed::Owner { epoch, attempt } = got {
                    let last = epochs.insert(id, (token, epoch));
                    // A repeated claim keeps its epoch, a new owner gets a larger one.
                    assert!(
                        last.is_none_or(|(by, last)| epoch > last || (by == token && epoch == last)),
                        "seed {seed}: epoch {epoch} of attempt {attempt} after {last:?}"
                    );
                }
                ("claim", format!("{:?}", timeless(got)), format!("{:?}", timeless(wanted)))
            }
            5 => {
                let lease = dice.time();
                ("renew", ack(store.renew(&id, &token, lease).await), ack(Ok(model.renew(&id, token, lease))))
            }
            6 | 7 => {
                let completion = Completion {
                    fingerprint: print(u8::from(dice.roll(6) == 0)),
                    ttl: dice.time(),
                    outcome: vec![by; usize::from(dice.small(200))].into(),
                    ..completion(on, by)
                };
                ("complete", ack(store.complete(&completion).await), ack(Ok(model.complete(&completion))))
            }
            8 if dice.roll(2) == 0 => {
                ("release", ack(store.release(&id, &token).await), ack(Ok(model.release(&id, token))))
            }
            8 => {
                let ttl = dice.time();
                ("hold", ack(store.hold(&id, &token, ttl).await), ack(Ok(model.hold(&id, token, ttl))))
            }
            _ => {
                let wanted = model.live(&id).is_some();
                model.0.remove(&id);
                ("forget", store.forget(&id).await.unwrap().to_string(), wanted.to_string())
            }
        };
        seen.push_str(&format!("\n{step} {verb} {on} by {by}: {got}"));
        assert_eq!(got, wanted, "seed {seed}:{seen}");

        let record = store.get(&id).await.unwrap();
        let got = record.map(|record| {
            (record.state, record.attempt, !record.lease_left.is_zero(), record.outcome.unwrap_or_default())
        });
        let wanted = model.live(&id).map(|(slot, outcome)| {
            let runs = slot.state == State::InProgress && slot.lease_until > NOW.millis();
            (slot.state, slot.attempt, runs, outcome.clone())
        });
        assert_eq!(got, wanted, "the record after seed {seed}:{seen}");
    }
}

/// What is the same at any time.
fn timeless(claimed: Claimed) -> Claimed {
    match claimed {
        Claimed::Owner { attempt, .. } => Claimed::Owner { epoch: 0, attempt },
        Claimed::InProgress { .. } => Claimed::InProgress { lease_left: None },
        other => other,
    }
}

fn ack(ack: Result<Ack, StoreError>) -> String {
    format!("{:?}", ack.expect("a verb"))
}

#[tokio::test]
async fn scripts_decide_as_the_rules_do() {
    let (_server, store) = start!();
    for seed in 0..60 {
        compare(&store, seed, 150).await;
    }
}

#[tokio::test]
async fn scripts_decide_as_the_rules_do_on_a_cluster() {
    let Some(cluster) = RedisCluster::start().await else { return };
    let store = RedisStore::connect(cluster.url()).await.unwrap();
    for seed in 100..110 {
        compare(&store, seed, 150).await;
    }
}
