//! What a handler may know of its own attempt.

use std::{convert::Infallible, sync::Arc};

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::engine::AttemptCell;

/// Extracts this run's names: hand them to whatever the handler changes, so that it can tell a stale run from the current
/// one.
///
/// The values are there once the handler runs, and `None` where nothing guards it (no key on an `optional` handler, a
/// safe method, an unannotated handler).
///
/// ```
/// use axum::{Json, http::StatusCode};
/// use idem_runtime::{Attempt, idempotent};
///
/// #[idempotent(ttl = "24h")]
/// async fn capture(attempt: Attempt, Json(amount): Json<u64>) -> StatusCode {
///     // The resource refuses an epoch below the highest it has seen.
///     let _fencing_token = attempt.epoch();
///     StatusCode::CREATED
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Attempt(Arc<AttemptCell>);

impl Attempt {
    #[cfg(feature = "once")]
    pub(crate) fn of(cell: Arc<AttemptCell>) -> Self {
        Self(cell)
    }

    /// The attempt's random token: names this run and no other.
    pub fn token(&self) -> Option<[u8; 16]> {
        self.0.started().map(|started| *started.token.as_bytes())
    }

    /// The fencing token: greater than that of every earlier run with this key, also of those long forgotten.
    pub fn epoch(&self) -> Option<u64> {
        self.0.started().map(|started| started.epoch)
    }

    /// 1 on the first run with this key, one more for each run after a lapsed lease.
    pub fn number(&self) -> Option<u32> {
        self.0.started().map(|started| started.number)
    }

    /// Resolves when this run can no longer prove that it is the only one. With `unknown = retry` the run is stopped at
    /// that moment; with `hold` it goes on, and this is how it learns of it.
    pub async fn lease_lost(&self) {
        self.0.lost().await;
    }
}

impl<S: Sync> FromRequestParts<S> for Attempt {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(cell(&mut parts.extensions)))
    }
}

/// The request's cell, whoever asks first: an `Attempt` parameter or the wrapper.
pub(super) fn cell(extensions: &mut http::Extensions) -> Arc<AttemptCell> {
    Arc::clone(&extensions.get_or_insert_default::<Slot>().0)
}

#[derive(Clone, Debug, Default)]
struct Slot(Arc<AttemptCell>);
