//! Random histories: the scripts decide as the rules do, by which the memory store lives.

use std::{collections::HashMap, fmt::Write as _};

use idem_runtime::store::{Ack, Claim, Claimed, MemoryStore, Record, State, Store as _};
use idem_tests::redis::RedisCluster;

use super::*;

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

    fn claim(&mut self, on: u64, by: u8) -> Claim {
        Claim {
            fingerprint: print(u8::from(self.roll(6) == 0)),
            older_fingerprints: if self.roll(8) == 0 { vec![print(0), print(1)] } else { Vec::new() },
            hold: self.roll(6) == 0,
            lease: self.time(),
            ttl: self.time(),
            waiting: self.roll(2) == 0,
            ..claim(on, by)
        }
    }
}

/// Does the same to both. Leases and retentions are an hour or nothing, so that no time passes between the two.
async fn compare(redis: &RedisStore, seed: u64, steps: usize) {
    let memory = MemoryStore::new();
    let mut dice = Dice(seed);
    // What each owner claimed with, as an engine remembers it, and the epoch that each record has reached.
    let mut owners: HashMap<(u64, u8), (Claim, u64, u32)> = HashMap::new();
    let mut epochs: HashMap<u64, (u8, u64)> = HashMap::new();
    let mut history = String::new();
    for step in 0..steps {
        let on = seed * 1000 + dice.roll(3);
        let by = dice.small(3);
        let (id, token) = (id(on), token(by));
        let (verb, got, wanted) = match dice.roll(10) {
            0..=4 => {
                let claim = dice.claim(on, by);
                let (got, wanted) = (redis.claim(&claim).await.unwrap(), memory.claim(&claim).await.unwrap());
                if let Claimed::Owner { epoch, attempt } = got {
                    // A repeated claim may keep its epoch, a new owner gets a larger one.
                    let last = epochs.insert(on, (by, epoch));
                    let grows = last.is_none_or(|(who, last)| epoch > last || (who == by && epoch == last));
                    assert!(grows, "seed {seed}: epoch {epoch} after {last:?}:{history}");
                    owners.insert((on, by), (claim, epoch, attempt));
                }
                ("claim", format!("{:?}", timeless(got)), format!("{:?}", timeless(wanted)))
            }
            5 => {
                let lease = dice.time();
                ("renew", ack(redis.renew(&id, &token, lease).await), ack(memory.renew(&id, &token, lease).await))
            }
            6 | 7 => {
                let mut completion = completion(on, by);
                if let Some((claim, epoch, attempt)) = owners.get(&(on, by)) {
                    (completion.fingerprint, completion.epoch, completion.attempt) =
                        (claim.fingerprint, *epoch, *attempt);
                }
                completion.ttl = dice.time();
                completion.outcome = vec![by; usize::from(dice.small(200))].into();
                ("complete", ack(redis.complete(&completion).await), ack(memory.complete(&completion).await))
            }
            8 if dice.roll(2) == 0 => {
                ("release", ack(redis.release(&id, &token).await), ack(memory.release(&id, &token).await))
            }
            8 => {
                let ttl = dice.time();
                ("hold", ack(redis.hold(&id, &token, ttl).await), ack(memory.hold(&id, &token, ttl).await))
            }
            _ => {
                ("forget", redis.forget(&id).await.unwrap().to_string(), memory.forget(&id).await.unwrap().to_string())
            }
        };
        let _ = write!(history, "\n{step} {verb} {on} by {by}: {got}");
        assert_eq!(got, wanted, "seed {seed}:{history}");
        let (got, wanted) = (redis.get(&id).await.unwrap(), memory.get(&id).await.unwrap());
        assert_eq!(got.map(standing), wanted.map(standing), "the record after seed {seed}:{history}");
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

/// The same of a record; whether its lease runs, and about when it expires.
fn standing(record: Record) -> (State, u32, bool, u64, Option<Bytes>) {
    let expires_in = record.expires_in.as_secs().div_ceil(60);
    (record.state, record.attempt, !record.lease_left.is_zero(), expires_in, record.outcome)
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
