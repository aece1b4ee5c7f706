//! What operators see: one terminal outcome per request, store and handler times, running attempts.
//!
//! Keys, bodies and credentials are never logged; a record is named by the first 8 hex digits of its id.

mod operation;

use std::fmt;

pub(crate) use operation::Operation;

use crate::{protocol::RecordId, store::NotCommitted};

/// How a request ended, as far as idempotency goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The handler ran and its answer is kept.
    Executed,
    /// Answered from the record.
    Replayed,
    /// Answered from the record, after waiting for the attempt that made it.
    Waited,
    /// Refused: another attempt runs.
    InProgress,
    /// Refused: the key belongs to another request.
    Mismatch,
    /// Refused: no key.
    KeyMissing,
    /// Refused: a key that can't be one.
    KeyInvalid,
    /// The outcome is unknown and held: this run's, or an earlier one's and this request was refused.
    Held,
    /// As [`Executed`](Self::Executed), after the lease of an earlier attempt had lapsed.
    Takeover,
    /// The handler ran and its answer is not kept.
    Released,
    /// Refused: the store failed at the claim.
    StoreError,
    /// The handler ran without protection.
    Unprotected,
    /// The run was stopped: it could no longer prove its lease.
    LeaseLost,
    /// The handler ran; storing its answer goes on in the background.
    CompletionLate,
    /// The handler's transaction did not commit: a conflict, a broken connection, a statement that failed.
    RolledBack,
    /// The handler's transaction may have committed: the answer to the commit is lost.
    CommitUnknown,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Replayed => "replayed",
            Self::Waited => "waited",
            Self::InProgress => "in_progress",
            Self::Mismatch => "mismatch",
            Self::KeyMissing => "key_missing",
            Self::KeyInvalid => "key_invalid",
            Self::Held => "outcome_unknown",
            Self::Takeover => "takeover",
            Self::Released => "released",
            Self::StoreError => "store_error",
            Self::Unprotected => "unprotected",
            Self::LeaseLost => "lease_lost",
            Self::CompletionLate => "completion_late",
            Self::RolledBack => "rolled_back",
            Self::CommitUnknown => "commit_unknown",
        }
    }

    /// Whether someone should look.
    const fn is_trouble(self) -> bool {
        matches!(self, Self::Held | Self::StoreError | Self::LeaseLost | Self::CompletionLate | Self::CommitUnknown)
    }
}

/// Reports the terminal outcome of one request.
pub(crate) fn outcome(outcome: Outcome, operation: &Operation, record: Option<&RecordId>) {
    let record = record.map(tracing::field::display);
    let name = outcome.name();
    if outcome.is_trouble() {
        tracing::warn!(target: "idem", outcome = name, operation = &*operation.name(), record, "idempotency");
    } else {
        tracing::info!(target: "idem", outcome = name, operation = &*operation.name(), record, "idempotency");
    }
    #[cfg(feature = "metrics")]
    metrics::counter!("idem_requests_total", "outcome" => name, "operation" => operation.name().into_owned())
        .increment(1);
}

/// Since when something takes its time. Asks no clock where nobody is told: a reading costs as much as a small digest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(#[cfg(feature = "metrics")] std::time::Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(
            #[cfg(feature = "metrics")]
            std::time::Instant::now(),
        )
    }

    /// Reports how long a store call took.
    pub(crate) fn store_time(self, verb: &'static str, store: &'static str, failed: bool) {
        #[cfg(feature = "metrics")]
        {
            metrics::histogram!("idem_store_seconds", "verb" => verb, "store" => store).record(self.0.elapsed());
            if failed {
                metrics::counter!("idem_store_errors_total", "verb" => verb, "store" => store).increment(1);
            }
        }
        #[cfg(not(feature = "metrics"))]
        let _ = (self, verb, store, failed);
    }

    /// Reports how long a handler ran.
    pub(crate) fn handler_time(self, operation: &Operation) {
        #[cfg(feature = "metrics")]
        metrics::histogram!("idem_handler_seconds", "operation" => operation.name().into_owned())
            .record(self.0.elapsed());
        #[cfg(not(feature = "metrics"))]
        let _ = (self, operation);
    }
}

/// Reports that an attempt has begun. Counted up and down, since a process may have several handles.
pub(crate) fn run_begun() {
    #[cfg(feature = "metrics")]
    metrics::gauge!("idem_running_attempts").increment(1);
}

/// Reports that an attempt has ended and is settled.
pub(crate) fn run_ended() {
    #[cfg(feature = "metrics")]
    metrics::gauge!("idem_running_attempts").decrement(1);
}

/// Reports a failure of the store that a person should hear of, with its causes.
pub(crate) fn store_failed(verb: &'static str, record: &RecordId, error: &dyn std::error::Error) {
    tracing::error!(target: "idem", verb, %record, error = %Chain(error), "the idempotency store failed");
}

/// Reports why a handler's transaction did not commit; a person should hear of it where retrying won't help.
pub(crate) fn not_committed(record: Option<&RecordId>, error: &NotCommitted) {
    let record = record.map(tracing::field::display);
    if matches!(error, NotCommitted::RolledBack(_)) {
        tracing::warn!(target: "idem", record, "{}", Chain(error));
    } else {
        tracing::error!(target: "idem", record, "{}", Chain(error));
    }
}

/// An error with its causes, on one line.
struct Chain<'a>(&'a dyn std::error::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
