//! What every check stands on.

use std::{fmt::Debug, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;

use crate::store::{Ack, Claim, Claimed, Completion, Fingerprint, RecordId, Store, StoreError, Token};

/// What a check found: nothing, or what was wrong.
pub(super) type Verdict = Result<(), String>;

/// Longer than any check takes, on any machine.
pub(super) const LONG: Duration = Duration::from_mins(5);
/// A lease or retention that a check waits out.
pub(super) const SHORT: Duration = Duration::from_millis(60);

/// Waits until a lease or retention of [`SHORT`] is over on any store's clock.
pub(super) async fn outlive_short() {
    tokio::time::sleep(SHORT + Duration::from_millis(60)).await;
}

/// A store under test.
pub(super) struct Bench<S>(Arc<S>);

impl<S> Clone for Bench<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Store> Bench<S> {
    pub(super) fn new(store: Arc<S>) -> Self {
        Self(store)
    }

    /// The store itself: the methods of an `Arc` would be the erased ones.
    pub(super) fn store(&self) -> &S {
        &self.0
    }

    pub(super) async fn claim(&self, claim: &Claim) -> Result<Claimed, String> {
        said("claim", self.store().claim(claim)).await
    }

    /// Claims what must be free or lapsed, and says with which epoch and attempt.
    pub(super) async fn own(&self, claim: &Claim) -> Result<(u64, u32), String> {
        match self.claim(claim).await? {
            Claimed::Owner { epoch, attempt } => Ok((epoch, attempt)),
            other => Err(format!("the claim should own, got {}", named(&other))),
        }
    }

    pub(super) async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Ack, String> {
        said("renew", self.store().renew(&claim.id, &claim.token, lease)).await
    }

    pub(super) async fn complete(&self, claim: &Claim, outcome: &[u8], ttl: Duration) -> Result<Ack, String> {
        said("complete", self.store().complete(&completion(claim, outcome, ttl))).await
    }

    pub(super) async fn release(&self, claim: &Claim) -> Result<Ack, String> {
        said("release", self.store().release(&claim.id, &claim.token)).await
    }

    pub(super) async fn hold(&self, claim: &Claim, ttl: Duration) -> Result<Ack, String> {
        said("hold", self.store().hold(&claim.id, &claim.token, ttl)).await
    }

    pub(super) async fn get(&self, claim: &Claim) -> Result<Option<crate::store::Record>, String> {
        said("get", self.store().get(&claim.id)).await
    }

    pub(super) async fn forget(&self, claim: &Claim) -> Result<bool, String> {
        said("forget", self.store().forget(&claim.id)).await
    }

    /// Claims like `claim`, as another attempt, and wants `expected`.
    pub(super) async fn expect(&self, claim: &Claim, expected: Expected<'_>, when: &str) -> Verdict {
        let got = self.claim(&other_attempt(claim)).await?;
        let fits = match (&expected, &got) {
            (Expected::Replay(bytes), Claimed::Replay { outcome }) => outcome == bytes,
            (Expected::InProgress, Claimed::InProgress { .. }) | (Expected::Unknown, Claimed::Unknown) => true,
            (Expected::Mismatch(fingerprint), Claimed::Mismatch { stored }) => stored == &fingerprint.as_bytes()[..],
            _ => false,
        };
        ensure(fits, || format!("{when}, another claim should get {}, got {}", expected.name(), named(&got)))
    }
}

/// What another attempt is to get.
pub(super) enum Expected<'a> {
    Replay(&'a [u8]),
    InProgress,
    Unknown,
    Mismatch(&'a Fingerprint),
}

impl Expected<'_> {
    fn name(&self) -> String {
        match self {
            Self::Replay(bytes) => format!("Replay of {} bytes", bytes.len()),
            Self::InProgress => "InProgress".into(),
            Self::Unknown => "Unknown".into(),
            Self::Mismatch(_) => "Mismatch".into(),
        }
    }
}

/// An answer without its bytes.
pub(super) fn named(claimed: &Claimed) -> String {
    match claimed {
        Claimed::Replay { outcome } => format!("Replay of {} bytes", outcome.len()),
        Claimed::Mismatch { stored } => format!("Mismatch with {} bytes", stored.len()),
        other => format!("{other:?}"),
    }
}

/// A claim of a fresh id, for `LONG`, that lets others run after a lapse.
pub(super) fn fresh() -> Claim {
    Claim {
        id: RecordId::from_bytes(random()),
        token: Token::from_bytes(random()),
        fingerprint: fingerprint(),
        older_fingerprints: Vec::new(),
        hold: false,
        lease: LONG,
        ttl: LONG,
        waiting: false,
    }
}

/// A fresh claim whose lease runs out while the check waits.
pub(super) fn fresh_short() -> Claim {
    Claim { lease: SHORT, ..fresh() }
}

/// The same request by another attempt, for `LONG`.
pub(super) fn other_attempt(claim: &Claim) -> Claim {
    Claim { token: Token::from_bytes(random()), lease: LONG, ..claim.clone() }
}

/// Another request under the same key.
pub(super) fn other_request(claim: &Claim) -> Claim {
    Claim { fingerprint: fingerprint(), ..other_attempt(claim) }
}

pub(super) fn fingerprint() -> Fingerprint {
    Fingerprint::from_bytes(random())
}

pub(super) fn completion(claim: &Claim, outcome: &[u8], ttl: Duration) -> Completion {
    Completion {
        id: claim.id,
        token: claim.token,
        epoch: 1,
        attempt: 1,
        fingerprint: claim.fingerprint,
        ttl,
        outcome: Bytes::copy_from_slice(outcome),
    }
}

/// Random bytes, so that no check meets another's records.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness every id is the same and the checks fail by themselves.
    let _ = getrandom::fill(&mut bytes);
    bytes
}

async fn said<T>(verb: &str, reply: impl Future<Output = Result<T, StoreError>>) -> Result<T, String> {
    reply.await.map_err(|error| {
        let mut chain = format!("{verb} failed: {error}");
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            chain = format!("{chain}: {error}");
            cause = error.source();
        }
        chain
    })
}

pub(super) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

pub(super) fn same<T: PartialEq + Debug>(what: &str, expected: &T, got: &T) -> Verdict {
    ensure(expected == got, || format!("{what}: expected {expected:?}, got {got:?}"))
}
