//! A client: one engine with one request, from its claim to the end of its attempt.
//!
//! Freer than the engine where that costs nothing: an answer may be heard at any time after it was given, a call may
//! linger after its caller has given up, and a run may end at any time and in any way.

use std::{array::from_fn, sync::LazyLock};

use idem_runtime::protocol::{Fence, Reading};

use crate::{
    held::TICK,
    laws::Law,
    world::{Call, Fault, LEASE, Reply, TTL, Verb, World},
};

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It has nothing to do, or is dead.
    Idle,
    /// It wants to be the owner.
    Claiming,
    /// It was told to wait for another's outcome.
    Waiting,
    /// Its handler runs. Ages are in ticks of its own clocks.
    Running {
        /// How long ago the claim that was granted was sent.
        began: u8,
        /// How long ago the newest proof of its lease was asked for.
        proven: u8,
        /// It has heard that the record is another's; with `hold` it runs on.
        lost: bool,
    },
    /// It tells the store how its attempt ended until it is heard.
    Settling(Verb),
}

/// A call that is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asked {
    /// What for.
    pub verb: Verb,
    /// How long ago, in ticks of its own clocks.
    pub sent: u8,
    /// The answer, once it is there to be heard.
    pub reply: Option<Reply>,
    /// Whether the answer may linger.
    pub late: bool,
}

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    /// Where it is.
    pub phase: Phase,
    /// The call it waits for.
    pub asked: Option<Asked>,
    /// Whether it asks for `hold`.
    pub hold: bool,
    /// Whether its request is the other one.
    pub other: bool,
    /// Whether the store has granted its claim, heard or not.
    pub granted: bool,
    /// The epoch of its attempt.
    pub epoch: u8,
    /// The number of its attempt.
    pub attempt: u8,
    /// Its token; 0 for none.
    pub token: u8,
}

/// The moment `age` ticks ago by two clocks: one that slept or one that was set back, or neither.
fn reading(age: usize, clock: u8) -> Reading {
    let age = u32::try_from(age).unwrap_or(u32::MAX);
    let (now, then) = (TICK * 100, TICK * (100 - age));
    match clock {
        0 => Reading { monotonic: then, wall: then },
        1 => Reading { monotonic: now, wall: then },
        _ => Reading { monotonic: then, wall: now + TICK * age },
    }
}

/// What the protocol's fence says of each pair of ages, asked once: whether the owner must stop, by the worst pair of
/// clocks, and whether a renewal is due, by the best.
static FENCE: LazyLock<[[(bool, bool); LEASE as usize + 1]; TTL as usize + 1]> =
    LazyLock::new(|| from_fn(|began| from_fn(|proven| ask_fence(began, proven))));

fn ask_fence(began: usize, proven: usize) -> (bool, bool) {
    let fences = (0..3).map(|clock| {
        let mut fence = Fence::new(TICK * u32::from(LEASE), reading(began, clock), TICK * u32::from(TTL));
        fence.prove(reading(proven, clock));
        (fence, reading(0, clock))
    });
    let is_due = |(fence, now): (Fence, Reading)| fence.renewal_due(now).is_some_and(|due| due.is_zero());
    (fences.clone().all(|(fence, now)| fence.is_lost(now)), fences.clone().any(is_due))
}

/// Whether an owner whose lease was proven so long ago must stop.
fn is_lost(proven: u8) -> bool {
    FENCE[0][usize::from(proven)].0
}

impl Client {
    /// One that has nothing to do yet.
    pub const fn new(hold: bool, other: bool) -> Self {
        Self { phase: Phase::Idle, asked: None, hold, other, granted: false, epoch: 0, attempt: 0, token: 0 }
    }

    /// Whether its handler runs.
    pub fn runs(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// Whether its handler runs and its lease is proven.
    pub fn is_proven(&self) -> bool {
        matches!(self.phase, Phase::Running { proven, lost: false, .. } if !is_lost(proven))
    }

    /// Whether a renewal is due.
    pub(crate) fn renews(&self) -> bool {
        let Phase::Running { began, proven, lost: false } = self.phase else { return false };
        self.asked.is_none() && FENCE[usize::from(began)][usize::from(proven)].1
    }

    /// One tick of its clocks.
    pub(crate) fn tick(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.sent = (asked.sent + 1).min(LEASE);
        }
        if let Phase::Running { began, proven, .. } = &mut self.phase {
            (*began, *proven) = ((*began + 1).min(TTL), (*proven + 1).min(LEASE));
        }
    }

    fn end(&mut self) {
        *self = Self::new(self.hold, self.other);
    }
}

impl World {
    fn client(&mut self, at: usize) -> &mut Client {
        &mut self.clients[at]
    }

    /// Sends a call, and waits for its answer.
    fn ask(&mut self, at: usize, verb: Verb) {
        self.stop_waiting(at);
        self.send(at, verb, true);
        self.client(at).asked = Some(Asked { verb, sent: 0, reply: None, late: false });
    }

    fn send(&mut self, at: usize, verb: Verb, awaited: bool) {
        let client = self.clients[at];
        let (epoch, attempt) = if verb == Verb::Complete { (client.epoch, client.attempt) } else { (0, 0) };
        let Client { other, hold, token, .. } = client;
        self.calls.push(Call { verb, awaited, late: false, other, hold, epoch, attempt, token });
    }

    /// A call whose caller doesn't wait any more goes on alone.
    pub(crate) fn stop_waiting(&mut self, at: usize) {
        let token = self.clients[at].token;
        self.clients[at].asked = None;
        self.calls.iter_mut().filter(|call| call.token == token).for_each(|call| call.awaited = false);
    }

    /// A request comes in.
    pub(crate) fn start(&mut self, at: usize) {
        self.tokens += 1;
        let token = self.tokens;
        let client = self.client(at);
        (client.token, client.phase) = (token, Phase::Claiming);
        self.ask(at, Verb::Claim);
    }

    /// A waiting duplicate claims again, with the same token.
    pub(crate) fn claim_again(&mut self, at: usize) {
        self.client(at).phase = Phase::Claiming;
        self.ask(at, Verb::Claim);
    }

    /// A renewal is sent.
    pub(crate) fn renew(&mut self, at: usize) {
        self.ask(at, Verb::Renew);
    }

    /// The handler ends.
    pub(crate) fn settle(&mut self, at: usize, end: Verb) {
        self.client(at).phase = Phase::Settling(end);
        self.ask(at, end);
    }

    /// The process dies.
    pub(crate) fn crash(&mut self, at: usize) {
        self.stop_waiting(at);
        self.client(at).end();
    }

    /// A call is executed; `heard` says whether its answer will be.
    pub(crate) fn deliver(&mut self, index: usize, heard: bool, fault: Fault) {
        let call = self.calls.swap_remove(index);
        let reply = self.store.execute(call, fault, &mut self.laws);
        let Some(at) = self.clients.iter().position(|client| client.token == call.token) else { return };
        if matches!(reply, Reply::Owner { .. }) {
            self.client(at).granted = true;
        }
        if call.awaited {
            self.answer(at, if heard { reply } else { Reply::Fault }, fault);
        }
    }

    /// A call is lost.
    pub(crate) fn lose(&mut self, index: usize, fault: Fault) {
        let call = self.calls.swap_remove(index);
        if let Some(at) = self.clients.iter().position(|client| client.token == call.token).filter(|_| call.awaited) {
            self.answer(at, Reply::Fault, fault);
        }
    }

    /// An answer is there. Where hearing it later makes a difference it is kept; else it is heard at once.
    pub(crate) fn answer(&mut self, at: usize, reply: Reply, fault: Fault) {
        if let Some(asked) = &mut self.client(at).asked {
            asked.reply = Some(reply);
        }
        let decides = matches!(reply, Reply::Owner { .. } | Reply::Fault);
        let waits = match self.clients[at].phase {
            Phase::Claiming => decides,
            Phase::Running { .. } => true,
            _ => false,
        };
        if !waits {
            self.hear(at, true, fault);
        }
    }

    /// An answer is heard. After a claim that failed the engine `repeats`, or gives up.
    pub(crate) fn hear(&mut self, at: usize, repeats: bool, fault: Fault) {
        let Some(Asked { sent, reply: Some(reply), .. }) = self.client(at).asked.take() else { return };
        match (self.clients[at].phase, reply) {
            (Phase::Claiming, Reply::Owner { epoch, attempt }) => self.own(at, sent, epoch, attempt, fault),
            (Phase::Claiming, Reply::Fault) if fault == Fault::FaultTakenForGrant => self.own(at, sent, 0, 1, fault),
            (Phase::Claiming, Reply::Fault) if repeats => self.ask(at, Verb::Claim),
            (Phase::Claiming, Reply::Fault) => self.settle(at, Verb::Release),
            (Phase::Claiming, Reply::InProgress) => self.client(at).phase = Phase::Waiting,
            (Phase::Running { began, proven, .. }, Reply::Done) => {
                let proof = if fault == Fault::FenceFromReceipt { 0 } else { sent };
                // A later proof is never replaced by an earlier one: one renewal is out at a time.
                let proven = proven.min(proof);
                self.client(at).phase = Phase::Running { began, proven, lost: false };
            }
            (Phase::Running { began, proven, .. }, Reply::Lost) => {
                self.client(at).phase = Phase::Running { began, proven, lost: true };
                if !self.clients[at].hold {
                    self.settle(at, Verb::Release);
                }
            }
            (Phase::Running { .. }, _) => {}
            (Phase::Settling(end), Reply::Fault) => {
                if end != Verb::Release {
                    // A store that refuses the outcome may still grant the lease.
                    self.send(at, Verb::Renew, false);
                }
                self.ask(at, end);
            }
            _ => self.client(at).end(),
        }
    }

    /// A grant is heard: the handler starts, unless the lease is past its fence already.
    fn own(&mut self, at: usize, sent: u8, epoch: u8, attempt: u8, fault: Fault) {
        let sent = if fault == Fault::FenceFromReceipt { 0 } else { sent };
        let client = self.client(at);
        (client.epoch, client.attempt) = (epoch, attempt);
        if is_lost(sent) && fault != Fault::StartsPastFence {
            return self.settle(at, Verb::Release);
        }
        let client = *client;
        self.client(at).phase = Phase::Running { began: sent, proven: sent, lost: false };
        self.laws.check(Law::NoRunWithoutClaim, client.granted);
        self.laws.check(Law::NoRunOverAnOutcome, self.store.outcome.is_none());
        if self.store.live().is_some_and(|held| held.hold) && client.epoch >= self.store.life {
            self.store.runs += 1;
            self.laws.check(Law::HoldRunsOnce, self.store.runs <= 1);
        }
    }

    /// The fence: runs that can't prove their lease are stopped, and let go of their claims.
    pub(crate) fn stop_the_lost(&mut self, fault: Fault) {
        if fault == Fault::FenceOff {
            return;
        }
        for at in 0..self.clients.len() {
            if let Client { hold: false, phase: Phase::Running { proven, .. }, .. } = self.clients[at]
                && is_lost(proven)
            {
                self.settle(at, Verb::Release);
            }
        }
    }
}
