//! The end of an attempt, told to the store.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    Engine,
    calls::{End, bounded},
    run::Owner,
};
use crate::{
    protocol::Ack,
    store::{Completion, StoreError},
    telemetry::{self, Outcome},
};

impl Engine {
    /// Stores the outcome.
    pub(super) async fn keep(self: &Arc<Self>, owner: Owner, outcome: Bytes) {
        let claim = &owner.claim;
        let completion = Completion {
            id: claim.id,
            token: claim.token,
            epoch: owner.epoch,
            attempt: owner.number,
            fingerprint: claim.fingerprint,
            ttl: claim.ttl,
            outcome,
        };
        self.settle(owner, End::Complete(completion)).await;
    }

    /// Tells the store how the attempt ended. What the store doesn't take now is repeated in the background, so that the
    /// caller has its answer; the attempt counts as running until then.
    pub(super) async fn settle(self: &Arc<Self>, owner: Owner, end: End) {
        let claim = &owner.claim;
        let outcome = match bounded(self.end(claim, &end), self.store_timeout).await {
            Ok(Ack::Done) => match end {
                End::Complete(_) if owner.number > 1 => Outcome::Takeover,
                End::Complete(_) => Outcome::Executed,
                End::Release => Outcome::Released,
                End::Hold => Outcome::OutcomeUnknown,
            },
            // Another attempt owns or settled the record: this one changed nothing.
            Ok(Ack::Lost) => Outcome::LeaseLost,
            Err(error) => {
                telemetry::store_failed("settle", &claim.id, &error);
                telemetry::outcome(Outcome::CompletionLate, &owner.operation, Some(&claim.id));
                if matches!(error, StoreError::Fault(_)) {
                    let engine = Arc::clone(self);
                    tokio::spawn(async move { engine.end_eventually(&owner.claim, end).await });
                }
                return;
            }
        };
        telemetry::outcome(outcome, &owner.operation, Some(&claim.id));
        self.waiters.wake(&claim.id);
    }
}
