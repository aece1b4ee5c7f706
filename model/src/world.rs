//! What there is in one state: the store, the clients, the calls on their way, and what may still go wrong.

use std::hash::{Hash, Hasher};

use crate::{client::Client, held::Store, laws::Laws};

/// The lease, in ticks: a tick is the sixth by which clocks may differ.
pub const LEASE: u8 = 6;
/// Retention, in ticks.
pub const TTL: u8 = 8;

/// A verb of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the store's verbs")]
pub enum Verb {
    Claim,
    Renew,
    Complete,
    Release,
    Hold,
}

/// A call on its way to the store.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// What is asked.
    pub verb: Verb,
    /// Whether its caller still waits for the answer.
    pub awaited: bool,
    /// Whether it may linger: other calls are over before time passes.
    pub late: bool,
    /// Whether it is the other request.
    pub other: bool,
    /// Whether it says `hold`.
    pub hold: bool,
    /// For a completion.
    pub epoch: u8,
    /// For a completion.
    pub attempt: u8,
    /// Whose it is.
    pub token: u8,
}

/// What a caller hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the store's answers")]
pub enum Reply {
    Owner {
        epoch: u8,
        attempt: u8,
    },
    Replay,
    InProgress,
    Unknown,
    Mismatch,
    Done,
    Lost,
    /// Nothing: the call may have been executed or not, or may yet be.
    Fault,
}

/// What may still happen, so many times each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scene {
    /// Attempts that start, each with a token of its own.
    pub starts: u8,
    /// Clients that crash.
    pub crashes: u8,
    /// Calls or answers that are lost.
    pub losses: u8,
    /// Calls or answers that take as long as they like, and may overtake each other; the others take no time.
    pub delays: u8,
    /// Calls that are executed twice.
    pub doubles: u8,
    /// Waiting duplicates that claim once more.
    pub again: u8,
    /// Sixths of a lease by which the store's clock gets ahead of the clients'.
    pub jumps: u8,
    /// Sixths of a lease by which a client's clocks get behind.
    pub lags: u8,
    /// Settled or lapsed records that an operator forgets.
    pub forgets: u8,
}

impl Scene {
    /// Nothing happens at all.
    pub const NOTHING: Self =
        Self { starts: 0, crashes: 0, losses: 0, delays: 0, doubles: 0, again: 0, jumps: 0, lags: 0, forgets: 0 };
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// None is.
    #[default]
    None,
    /// Release asks nobody for a token.
    ReleasedByAnyone,
    /// Renewal asks nobody for a token.
    RenewedByAnyone,
    /// Completion of a running record asks nobody for a token.
    CompletedByAnyone,
    /// Completion doesn't look at what is there.
    CompletedOverCompleted,
    /// A takeover has the epoch of the attempt it follows.
    TakeoverKeepsEpoch,
    /// A claim that repeats is taken for a stranger's.
    TokenUnrecognised,
    /// The fingerprint isn't compared.
    FingerprintUnread,
    /// Neither the record nor the claim remembers `hold`.
    HoldForgotten,
    /// A purge deletes what it has seen expired without looking again.
    PurgedUnchecked,
    /// A run goes on past its fence: the engine forgot it, the handler doesn't yield, or its process was suspended.
    FenceOff,
    /// A lease doesn't run out by itself.
    LeaseNeverLapses,
    /// The lease is reckoned from when its grant was heard, instead of from when it was asked for.
    FenceFromReceipt,
    /// A grant heard past the fence starts its run all the same.
    StartsPastFence,
    /// A claim without an answer is taken for a grant.
    FaultTakenForGrant,
}

/// One state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// The store.
    pub store: Store,
    /// The clients.
    pub clients: [Client; 3],
    /// The calls on their way, in no order.
    pub calls: Vec<Call>,
    /// What may still happen.
    pub left: Scene,
    /// The laws broken on the way here.
    pub laws: Laws,
    /// The newest token.
    pub(crate) tokens: u8,
}

impl World {
    /// Nothing has happened yet.
    pub(crate) fn new(clients: [Client; 3], left: Scene) -> Self {
        Self { store: Store::new(), clients, calls: Vec::new(), left, laws: Laws::default(), tokens: 0 }
    }

    /// Whether time may pass: whatever takes no time has happened.
    pub(crate) fn is_quiet(&self) -> bool {
        let heard = |client: &Client| client.asked.is_none_or(|asked| asked.reply.is_none() || asked.late);
        self.calls.iter().all(|call| call.late) && self.clients.iter().all(heard)
    }

    /// Whether the call that `client` waits for takes its time.
    pub(crate) fn lingers(&self, client: &Client) -> bool {
        self.calls.iter().any(|call| call.awaited && call.late && call.token == client.token)
    }
}

impl Hash for World {
    /// The same for worlds that differ in names only: which client is which, and which token.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mut clients = self.clients;
        let mut calls = self.calls.clone();
        let mut store = self.store.clone();
        clients.sort_unstable_by_key(|client| (Client { token: 0, ..*client }, client.token));
        calls.sort_unstable();
        let mut names = [None; 16];
        let mut name = |token: &mut u8| {
            let free = names.iter().position(|known| known.is_none_or(|known| known == *token)).unwrap_or(15);
            names[free] = Some(*token);
            *token = u8::try_from(free).unwrap_or(u8::MAX);
        };
        name(&mut 0);
        for client in &mut clients {
            name(&mut client.token);
        }
        if let Some(held) = &mut store.held {
            name(&mut held.token);
        }
        for call in &mut calls {
            name(&mut call.token);
        }
        calls.sort_unstable();
        (clients, calls, store, self.left, self.laws).hash(hasher);
    }
}
