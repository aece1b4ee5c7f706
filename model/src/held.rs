//! The store: one record, and the protocol's rules applied to it.

use std::time::Duration;

use idem_runtime::{
    protocol::{Ack, Claim, Decision, Fingerprint, Micros, RecordId, Slot, State, Token},
    store::Completion,
};

use crate::{
    laws::{Law, Laws},
    world::{Call, Fault, LEASE, Reply, TTL, Verb},
};

/// How long a tick is: all that matters is that the lease is six.
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// Now, by the store's clock, in every state: time passes by shifting what lies ahead.
const NOW_MS: u64 = 1_000_000_000;

/// A record, with its times as ticks from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// Where it stands.
    pub state: State,
    /// Whose it is.
    pub token: u8,
    /// Which grant made it: the order of epochs is all that counts.
    pub epoch: u8,
    /// How many attempts it has seen.
    pub attempt: u8,
    /// Whether an attempt asked for `hold`.
    pub hold: bool,
    /// Whether it is the other request's.
    pub other: bool,
    /// Ticks of lease left.
    pub lease: u8,
    /// Ticks until it is gone.
    pub expires: u8,
}

/// The store and what was seen of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    /// The record under the key, live or not.
    pub held: Option<Held>,
    /// Whose outcome a completed record has: whether it is the other request's.
    pub outcome: Option<bool>,
    /// The newest epoch granted. The clock never shows less than this, and need not show more.
    pub newest: u8,
    /// A purge has seen the record expired and is about to delete it.
    pub purging: bool,
    /// Ticks since the owner was last heard.
    pub silent: u8,
    /// The epoch that began this lifetime of the record.
    pub life: u8,
    /// Runs of this lifetime, counted where a record forbids a second.
    pub runs: u8,
}

fn ahead(ticks: u8) -> u64 {
    NOW_MS + u64::from(ticks) * 1000
}

#[expect(clippy::cast_possible_truncation, reason = "a few ticks or grants")]
fn ticks(until: u64) -> u8 {
    (until.saturating_sub(NOW_MS) / 1000) as u8
}

fn epoch_of(grant: u8) -> u64 {
    NOW_MS * 1000 + u64::from(grant)
}

#[expect(clippy::cast_possible_truncation, reason = "a few ticks or grants")]
fn grant_of(epoch: u64) -> u8 {
    (epoch - NOW_MS * 1000) as u8
}

fn token(token: u8) -> Token {
    Token::from_bytes([token; 16])
}

fn fingerprint(other: bool) -> Fingerprint {
    Fingerprint::from_bytes([u8::from(other); Fingerprint::LENGTH])
}

impl Held {
    fn slot(self) -> Slot {
        Slot {
            state: self.state,
            token: token(self.token),
            epoch: epoch_of(self.epoch),
            attempt: self.attempt.into(),
            hold: self.hold,
            fingerprint: fingerprint(self.other),
            lease_until: ahead(self.lease),
            expires: ahead(self.expires),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "as many attempts as tokens")]
    fn new(slot: &Slot) -> Self {
        Self {
            state: slot.state,
            token: slot.token.as_bytes()[0],
            epoch: grant_of(slot.epoch),
            attempt: slot.attempt as u8,
            hold: slot.hold,
            other: slot.fingerprint == fingerprint(true),
            lease: ticks(slot.lease_until),
            expires: ticks(slot.expires),
        }
    }

    /// Whether the record exists.
    pub fn is_live(self) -> bool {
        self.slot().is_live(Micros(NOW_MS * 1000))
    }
}

impl Store {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self { held: None, outcome: None, newest: 0, purging: false, silent: 0, life: 0, runs: 0 }
    }

    /// The record, unless it is absent or expired.
    pub fn live(&self) -> Option<Held> {
        self.held.filter(|held| held.is_live())
    }

    /// The clock: later than every grant, by as little as can be.
    fn now(&self) -> Micros {
        Micros(epoch_of(self.newest + 1))
    }

    /// One tick of the store's clock.
    pub(crate) fn tick(&mut self, fault: Fault) {
        self.silent = (self.silent + 1).min(LEASE + 1);
        if let Some(held) = &mut self.held {
            held.lease = held.lease.saturating_sub(u8::from(fault != Fault::LeaseNeverLapses));
            held.expires = held.expires.saturating_sub(1);
        }
        self.forget_history();
    }

    /// What only describes a lifetime ends with it.
    fn forget_history(&mut self) {
        match self.live() {
            Some(held) if held.state == State::InProgress => {}
            Some(_) => self.silent = 0,
            None => (self.silent, self.runs, self.outcome) = (0, 0, None),
        }
    }

    /// What a claim with a token of its own would be told.
    pub(crate) fn probe(&self) -> Decision {
        let (other, hold) = self.held.map_or((false, false), |held| (held.other, held.hold));
        Slot::claim(self.held.map(Held::slot).as_ref(), &claim(u8::MAX, other, hold), self.now())
    }

    /// Executes one call, and notes the laws it broke.
    pub(crate) fn execute(&mut self, call: Call, fault: Fault, laws: &mut Laws) -> Reply {
        let before = self.live();
        let outcome = self.outcome;
        let reply = match call.verb {
            Verb::Claim => self.claim(call, fault, laws),
            Verb::Renew => self.renew(call, fault),
            Verb::Complete => self.complete(call, fault),
            Verb::Release => self.release(call, fault),
            Verb::Hold => self.hold(call),
        };
        let unchanged = before == self.live() && outcome == self.outcome;
        if let Some(before) = before {
            laws.check(Law::CompletedNeverChanges, before.state != State::Completed || unchanged);
            let stranger = call.verb != Verb::Claim && before.token != call.token;
            laws.check(Law::StrangersChangeNothing, !stranger || unchanged);
        } else {
            let creates = matches!(call.verb, Verb::Claim | Verb::Complete);
            laws.check(Law::StrangersChangeNothing, creates || unchanged);
        }
        self.forget_history();
        reply
    }

    fn claim(&mut self, call: Call, fault: Fault, laws: &mut Laws) -> Reply {
        let before = self.live();
        let mut held = self.held.map(Held::slot);
        match (&mut held, fault) {
            (Some(slot), Fault::HoldForgotten) => slot.hold = false,
            (Some(slot), Fault::FingerprintUnread) => slot.fingerprint = fingerprint(call.other),
            (Some(slot), Fault::TokenUnrecognised) if slot.state == State::InProgress => slot.token = token(u8::MAX),
            _ => {}
        }
        let asked = claim(call.token, call.other, call.hold && fault != Fault::HoldForgotten);
        let own_running = before.is_some_and(|held| held.state == State::InProgress && held.token == call.token);
        let decision = Slot::claim(held.as_ref(), &asked, self.now());
        laws.check(Law::NobodyLockedOut, !own_running || matches!(decision, Decision::Own(_)));
        match decision {
            Decision::Own(slot) => {
                let mut slot = Held::new(&slot);
                match (before, fault) {
                    (Some(before), Fault::TakeoverKeepsEpoch) => slot.epoch = before.epoch,
                    (_, Fault::HoldForgotten) => slot.hold = call.hold,
                    _ => {}
                }
                let grew = if own_running { slot.epoch == self.newest } else { slot.epoch > self.newest };
                laws.check(Law::EpochsGrow, grew);
                laws.check(Law::NobodyElsesAnswer, before.is_none_or(|before| before.other == call.other));
                if before.is_none() {
                    (self.life, self.runs) = (slot.epoch, 0);
                }
                (self.held, self.outcome, self.silent) = (Some(slot), None, 0);
                self.newest = self.newest.max(slot.epoch);
                Reply::Owner { epoch: slot.epoch, attempt: slot.attempt }
            }
            Decision::Replay => {
                laws.check(Law::NobodyElsesAnswer, self.outcome == Some(call.other));
                Reply::Replay
            }
            Decision::InProgress { .. } => Reply::InProgress,
            Decision::Unknown => Reply::Unknown,
            Decision::Mismatch => Reply::Mismatch,
        }
    }

    fn renew(&mut self, call: Call, fault: Fault) -> Reply {
        let by_anyone = fault == Fault::RenewedByAnyone;
        let now = self.now();
        match self.held.map(Held::slot) {
            Some(mut slot) if slot.is_run_by(token(call.token), now) || by_anyone && slot.is_live(now) => {
                slot.renew(TICK * u32::from(LEASE), now);
                self.held = Some(Held::new(&slot));
                self.silent = 0;
                Reply::Done
            }
            _ => Reply::Lost,
        }
    }

    fn complete(&mut self, call: Call, fault: Fault) -> Reply {
        let (mut held, now) = (self.held.map(Held::slot), self.now());
        match (&mut held, fault) {
            (Some(slot), Fault::CompletedByAnyone) if slot.state == State::InProgress => slot.token = token(call.token),
            (slot, Fault::CompletedOverCompleted) if slot.as_ref().is_some_and(|s| s.state == State::Completed) => {
                *slot = None;
            }
            _ => {}
        }
        if let Some(ack) = Slot::complete(held.as_ref(), token(call.token), now) {
            return ack.into();
        }
        let slot = completion(call).slot(held.as_ref(), now);
        if self.live().is_none() {
            // The record of a late outcome is a lifetime of its own.
            (self.life, self.runs) = (self.newest + 1, 0);
        }
        (self.held, self.outcome) = (Some(Held::new(&slot)), Some(call.other));
        Reply::Done
    }

    fn release(&mut self, call: Call, fault: Fault) -> Reply {
        let mut held = self.held.map(Held::slot);
        if let (Some(slot), Fault::ReleasedByAnyone) = (&mut held, fault) {
            slot.token = token(call.token);
        }
        if let Some(ack) = Slot::release(held.as_ref(), token(call.token), self.now()) {
            return ack.into();
        }
        self.held = None;
        Reply::Done
    }

    fn hold(&mut self, call: Call) -> Reply {
        let (held, now) = (self.held.map(Held::slot), self.now());
        if let Some(ack) = Slot::hold(held.as_ref(), token(call.token), now) {
            return ack.into();
        }
        if let Some(mut slot) = held {
            slot.settle(State::Unknown, TICK * u32::from(TTL), now);
            self.held = Some(Held::new(&slot));
        }
        Reply::Done
    }

    /// A purge ends: it looks again at what it has seen expired.
    pub(crate) fn purge(&mut self, fault: Fault, laws: &mut Laws) {
        self.purging = false;
        let live = self.live().is_some();
        if !live || fault == Fault::PurgedUnchecked {
            laws.check(Law::OnlyTheExpiredIsPurged, !live);
            self.delete();
        }
    }

    /// The record is gone, whatever it was.
    pub(crate) fn delete(&mut self) {
        self.held = None;
        self.forget_history();
    }
}

impl From<Ack> for Reply {
    fn from(ack: Ack) -> Self {
        match ack {
            Ack::Done => Self::Done,
            Ack::Lost => Self::Lost,
        }
    }
}

const ID: RecordId = RecordId::from_bytes([7; 32]);

fn claim(by: u8, other: bool, hold: bool) -> Claim {
    Claim {
        id: ID,
        token: token(by),
        fingerprint: fingerprint(other),
        older_fingerprints: Vec::new(),
        hold,
        lease: TICK * u32::from(LEASE),
        ttl: TICK * u32::from(TTL),
        waiting: false,
    }
}

fn completion(call: Call) -> Completion {
    Completion {
        id: ID,
        token: token(call.token),
        epoch: epoch_of(call.epoch),
        attempt: call.attempt.into(),
        fingerprint: fingerprint(call.other),
        ttl: TICK * u32::from(TTL),
        outcome: bytes::Bytes::new(),
    }
}
