//! The contract as code: what every store must do, for authors of stores.
//!
//! ```
//! # use idem_runtime::store::{MemoryStore, conformance};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), conformance::Failures> {
//! conformance::run(MemoryStore::new()).await
//! # }
//! ```
//!
//! Every check works on fresh random ids, so the store may be a shared server. Checks that wait for a lease or a
//! retention to run out do so at the same time; the suite takes a few seconds.

mod bench;
mod claim;
mod expiry;
mod lease;
mod race;
mod settle;

use std::{error::Error, fmt, future::Future, pin::Pin, sync::Arc};

use tokio::task::JoinSet;

use super::{DynStore, Store};
use bench::{Bench, Verdict};

/// A rule that the store broke.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The check, as `topic::rule`.
    pub check: &'static str,
    /// What was expected and what came.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.what)
    }
}

/// The rules that a store broke. Its `Debug` is its `Display`, so that a test which unwraps shows them well.
pub struct Failures {
    store: &'static str,
    failures: Vec<Failure>,
}

impl Failures {
    /// One for each check that failed.
    pub fn iter(&self) -> impl Iterator<Item = &Failure> {
        self.failures.iter()
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} store breaks {} of the contract's rules", self.store, self.failures.len())?;
        self.failures.iter().try_for_each(|failure| write!(f, "\n  {failure}"))
    }
}

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Failures {}

/// Runs every check against `store`, as it is and as an `Arc<dyn DynStore>`. Needs a tokio runtime with its timer.
pub async fn run(store: impl Store) -> Result<(), Failures> {
    let store = Arc::new(store);
    let erased: Arc<dyn DynStore> = store.clone();
    checked(store).await?;
    checked(Arc::new(erased)).await
}

type Check = (&'static str, Pin<Box<dyn Future<Output = Verdict> + Send>>);

async fn checked<S: Store>(store: Arc<S>) -> Result<(), Failures> {
    let bench = Bench::new(store);
    let name = bench.store().name();
    let mut running = JoinSet::new();
    for (check, verdict) in all(&bench) {
        running.spawn(async move { verdict.await.err().map(|what| Failure { check, what }) });
    }
    let mut failures = Vec::new();
    while let Some(checked) = running.join_next().await {
        match checked {
            Ok(failure) => failures.extend(failure),
            Err(panic) => failures.push(Failure { check: "a check", what: format!("panicked: {panic}") }),
        }
    }
    failures.sort_by_key(|failure| failure.check);
    if failures.is_empty() { Ok(()) } else { Err(Failures { store: name, failures }) }
}

fn all<S: Store>(bench: &Bench<S>) -> Vec<Check> {
    macro_rules! checks {
        ($($topic:ident :: $rule:ident,)*) => {
            vec![$((concat!(stringify!($topic), "::", stringify!($rule)), Box::pin($topic::$rule(bench.clone())))),*]
        };
    }
    checks![
        claim::fresh_claim_owns,
        claim::epoch_is_the_clock_in_microseconds,
        claim::epochs_grow_over_releases,
        claim::same_token_recognises_itself,
        claim::other_token_meets_the_running_attempt,
        claim::another_request_is_a_mismatch_in_every_state,
        claim::older_fingerprints_are_accepted,
        claim::waiting_changes_no_answer,
        claim::ids_are_apart,
        settle::replays_are_byte_identical,
        settle::a_large_outcome_is_replayed,
        settle::a_completed_record_never_changes,
        settle::completing_an_absent_record_stores,
        settle::release_frees_the_key,
        settle::release_is_the_owners_alone,
        settle::hold_is_unknown_for_everybody,
        settle::hold_is_the_owners_alone,
        settle::forget_removes_whatever_is_there,
        settle::get_shows_every_state,
        lease::no_takeover_before_the_lease_lapses,
        lease::takeover_grows_attempt_and_epoch,
        lease::the_old_owner_is_fenced,
        lease::a_lapse_nobody_used_changes_nothing,
        lease::a_lapsed_claim_recognises_itself,
        lease::a_holding_claimant_never_takes_over,
        lease::a_holding_record_is_never_taken_over,
        lease::renewing_extends_the_lease_and_not_the_expiry,
        lease::renewing_what_is_not_ones_own_is_lost,
        expiry::running_lives_for_lease_and_ttl,
        expiry::completed_lives_for_ttl_from_completion,
        expiry::completed_is_gone_at_its_expiry,
        expiry::completing_does_not_keep_the_claims_ttl,
        expiry::unknown_is_gone_at_its_expiry,
        expiry::an_expired_claim_is_absent_to_every_verb,
        expiry::an_expired_record_takes_another_request,
        expiry::purge_keeps_the_living,
        expiry::purge_keeps_its_limits,
        race::one_of_many_claims_owns,
        race::one_of_many_takes_over,
        race::different_ids_do_not_meet,
        race::one_of_many_completions_stays,
        race::purging_never_removes_the_living,
    ]
}
