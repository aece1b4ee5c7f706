//! What a record is while it lives, and what each verb does to it.
//!
//! Pure: time comes in as an argument. The memory and SQLite stores call these functions; the PostgreSQL statements and
//! Redis scripts say the same in their own language, and the conformance suite compares them.

use std::time::Duration;

use super::{Fingerprint, Token};

/// A moment on the store's clock, in microseconds. Which epoch it counts from is the store's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(pub u64);

impl Micros {
    /// The moment in milliseconds: leases and expiry are compared in these, in every store.
    pub const fn millis(self) -> u64 {
        self.0 / 1000
    }
}

/// A duration in whole milliseconds, saturating.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Where a record stands. Absent and expired records have no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// An attempt runs, or ran until its process died.
    InProgress,
    /// The outcome is stored and never changes again.
    Completed,
    /// An attempt ended and nobody knows what it did; someone must decide.
    Unknown,
}

/// A record without its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Where it stands.
    pub state: State,
    /// The attempt that owns or settled it.
    pub token: Token,
    /// The fencing token: grows with every new owner of this record id, for ever.
    pub epoch: u64,
    /// How many attempts this record has seen.
    pub attempt: u32,
    /// Set when any attempt asked for `unknown = hold`.
    pub hold: bool,
    /// What the request was.
    pub fingerprint: Fingerprint,
    /// When the lease runs out, in milliseconds of the store's clock.
    pub lease_until: u64,
    /// When the record is gone, in milliseconds of the store's clock: it lives while this is greater than now.
    pub expires: u64,
}

/// What a claim asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The record.
    pub id: super::RecordId,
    /// The attempt that claims. A claim repeated with the same token recognises itself.
    pub token: Token,
    /// What the request is, in the newest format.
    pub fingerprint: Fingerprint,
    /// The same request in older formats that records may still carry.
    pub older_fingerprints: Vec<Fingerprint>,
    /// `unknown = hold`: no second run after a lapsed lease.
    pub hold: bool,
    /// How long the owner may stay silent.
    pub lease: Duration,
    /// Retention of the outcome.
    pub ttl: Duration,
    /// The claimant will wait for the running attempt: its end is worth a notification.
    pub waiting: bool,
}

impl Claim {
    /// Whether `stored` is this request, in any format.
    pub fn matches(&self, stored: &Fingerprint) -> bool {
        self.fingerprint == *stored || self.older_fingerprints.contains(stored)
    }
}

/// What a claim got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The claimant owns this slot now; the store writes it, without an outcome.
    Own(Slot),
    /// A completed record of this very request: answer from its outcome.
    Replay,
    /// Another attempt runs, for this much longer at most unless it renews.
    InProgress {
        /// Milliseconds of lease left.
        left_ms: u64,
    },
    /// An earlier attempt's outcome is unknown, and `hold` forbids another.
    Unknown,
    /// The key belongs to another request.
    Mismatch,
}

/// What a verb of an owner did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ack {
    /// The record is as the owner wants it (by this call or an earlier one that repeats).
    Done,
    /// The record is another attempt's, or settled otherwise; nothing changed.
    Lost,
}

impl Slot {
    /// Whether the record exists at `now`.
    pub const fn is_live(&self, now: Micros) -> bool {
        self.expires > now.millis()
    }

    /// Decides a claim against what the store holds under its id.
    pub fn claim(held: Option<&Self>, claim: &Claim, now: Micros) -> Decision {
        let fresh = |epoch, attempt| {
            let lease_until = now.millis().saturating_add(millis(claim.lease));
            Decision::Own(Self {
                state: State::InProgress,
                token: claim.token,
                epoch,
                attempt,
                hold: claim.hold,
                fingerprint: claim.fingerprint,
                lease_until,
                expires: lease_until.saturating_add(millis(claim.ttl)),
            })
        };
        let Some(slot) = held else { return fresh(now.0, 1) };
        let next_epoch = now.0.max(slot.epoch.saturating_add(1));
        if !slot.is_live(now) {
            return fresh(next_epoch, 1);
        }
        if slot.state == State::InProgress && slot.token == claim.token {
            return fresh(slot.epoch, slot.attempt);
        }
        if !claim.matches(&slot.fingerprint) {
            return Decision::Mismatch;
        }
        match slot.state {
            State::Completed => Decision::Replay,
            State::InProgress if slot.lease_until > now.millis() => {
                Decision::InProgress { left_ms: slot.lease_until - now.millis() }
            }
            State::InProgress if !slot.hold && !claim.hold => fresh(next_epoch, slot.attempt.saturating_add(1)),
            State::InProgress | State::Unknown => Decision::Unknown,
        }
    }

    /// Whether `token` still runs this record: only then may it renew, release or hold. A lapsed lease that nobody took
    /// over changes nothing.
    pub fn is_run_by(&self, token: Token, now: Micros) -> bool {
        self.is_live(now) && self.state == State::InProgress && self.token == token
    }

    /// What completing by `token` meets: `None` when there is nothing in the way and the outcome is to be written.
    ///
    /// An absent or expired record takes the outcome: the attempt ran, and a retry must find what it did.
    pub fn complete(held: Option<&Self>, token: Token, now: Micros) -> Option<Ack> {
        let slot = held.filter(|slot| slot.is_live(now))?;
        match slot.state {
            _ if slot.token != token => Some(Ack::Lost),
            State::InProgress => None,
            State::Completed => Some(Ack::Done),
            State::Unknown => Some(Ack::Lost),
        }
    }

    /// What releasing by `token` meets: `None` when the claim is there to be forgotten.
    pub fn release(held: Option<&Self>, token: Token, now: Micros) -> Option<Ack> {
        match held.filter(|slot| slot.is_live(now)) {
            None => Some(Ack::Done),
            Some(slot) if slot.is_run_by(token, now) => None,
            Some(_) => Some(Ack::Lost),
        }
    }

    /// What marking the outcome unknown by `token` meets: `None` when the record is to be marked.
    pub fn hold(held: Option<&Self>, token: Token, now: Micros) -> Option<Ack> {
        match held.filter(|slot| slot.is_live(now) && slot.token == token) {
            Some(slot) if slot.state == State::InProgress => None,
            Some(slot) if slot.state == State::Unknown => Some(Ack::Done),
            _ => Some(Ack::Lost),
        }
    }

    /// Gives the owner a full lease from `now`; the expiry stays.
    pub fn renew(&mut self, lease: Duration, now: Micros) {
        self.lease_until = now.millis().saturating_add(millis(lease));
    }

    /// Ends the attempt: the record stays in `state` for `ttl` from `now`.
    pub fn settle(&mut self, state: State, ttl: Duration, now: Micros) {
        self.state = state;
        self.lease_until = 0;
        self.expires = now.millis().saturating_add(millis(ttl));
    }

    /// How much of the lease is left at `now`: nothing once lapsed or settled.
    pub const fn lease_left(&self, now: Micros) -> Duration {
        match self.state {
            State::InProgress => Duration::from_millis(self.lease_until.saturating_sub(now.millis())),
            State::Completed | State::Unknown => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn print(number: u8) -> Fingerprint {
        Fingerprint::from_bytes([number; Fingerprint::LENGTH])
    }

    fn token(number: u8) -> Token {
        Token::from_bytes([number; 16])
    }

    /// Near now, or anywhere there is.
    fn moments() -> impl Strategy<Value = u64> {
        prop_oneof![3 => 990_u64..1010, 1 => any::<u64>(), 1 => Just(u64::MAX)]
    }

    fn durations() -> impl Strategy<Value = Duration> {
        prop_oneof![3 => (0_u64..20).prop_map(Duration::from_millis), 1 => Just(Duration::MAX)]
    }

    fn slots() -> impl Strategy<Value = Slot> {
        let state = prop_oneof![Just(State::InProgress), Just(State::Completed), Just(State::Unknown)];
        (state, 0_u8..3, moments(), any::<u32>(), any::<bool>(), 0_u8..2, moments(), moments()).prop_map(
            |(state, by, epoch, attempt, hold, of, lease_until, expires)| Slot {
                state,
                token: token(by),
                epoch,
                attempt,
                hold,
                fingerprint: print(of),
                lease_until,
                expires,
            },
        )
    }

    fn claims() -> impl Strategy<Value = Claim> {
        (0_u8..3, 0_u8..2, any::<bool>(), durations(), durations()).prop_map(|(by, of, hold, lease, ttl)| Claim {
            id: super::super::RecordId::from_bytes([0; 32]),
            token: token(by),
            fingerprint: print(of),
            older_fingerprints: Vec::new(),
            hold,
            lease,
            ttl,
            waiting: false,
        })
    }

    proptest! {
        #[test]
        fn a_claim_owns_what_is_free_or_its_own_or_lapsed(
            held in prop::option::of(slots()), claim in claims(), now in 990_000_u64..1_010_000,
        ) {
            let now = Micros(now);
            let live = held.as_ref().filter(|slot| slot.is_live(now));
            let Decision::Own(slot) = Slot::claim(held.as_ref(), &claim, now) else {
                prop_assert!(live.is_some());
                return Ok(());
            };
            prop_assert!(slot.token == claim.token && slot.state == State::InProgress);
            prop_assert!(slot.lease_until >= now.millis() && slot.expires >= slot.lease_until);
            let Some(live) = live else { return Ok(()) };
            prop_assert_eq!(live.state, State::InProgress);
            let repeated = live.token == claim.token;
            let lapsed = live.lease_until <= now.millis() && live.fingerprint == claim.fingerprint;
            prop_assert!(repeated || lapsed && !live.hold && !claim.hold);
            let newer = slot.epoch > live.epoch || live.epoch == u64::MAX;
            prop_assert!(if repeated { slot.epoch == live.epoch } else { newer }, "{} after {}", slot.epoch, live.epoch);
        }

        /// The verbs of an owner say what they met; only what the token runs is left to be changed.
        #[test]
        fn strangers_have_nothing_to_change(held in slots(), by in 0_u8..3, now in 990_000_u64..1_010_000) {
            let (now, by, live) = (Micros(now), token(by), held.is_live(Micros(now)));
            let runs = held.is_run_by(by, now);
            prop_assert_eq!(runs, live && held.token == by && held.state == State::InProgress);
            prop_assert_eq!(Slot::complete(Some(&held), by, now).is_none(), runs || !live);
            prop_assert_eq!(Slot::release(Some(&held), by, now).is_none(), runs);
            prop_assert_eq!(Slot::hold(Some(&held), by, now).is_none(), runs);
        }

        #[test]
        fn no_time_is_too_long(mut slot in slots(), lease in durations(), now in moments()) {
            let now = Micros(now);
            slot.renew(lease, now);
            prop_assert!(slot.lease_until >= now.millis());
            slot.settle(State::Completed, lease, now);
            prop_assert!(slot.expires >= now.millis());
            prop_assert!(slot.lease_left(now).is_zero());
        }
    }
}
