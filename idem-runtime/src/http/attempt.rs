//! What a handler may know of its own attempt.

use std::{any::type_name, convert::Infallible, sync::Arc};

use axum::extract::FromRequestParts;
use http::{Extensions, request::Parts};

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
pub(super) fn cell(extensions: &mut Extensions) -> Arc<AttemptCell> {
    Arc::clone(&extensions.get_or_insert_default::<Slot>().0)
}

/// The request's cell, where somebody asked for it, or may yet: `E` is what takes the request. Most handlers need none, and
/// making one costs as much as routing.
pub(super) fn cell_for<E>(extensions: &mut Extensions) -> Option<Arc<AttemptCell>> {
    if keeps_nothing::<E>() { extensions.get().map(|Slot(cell)| Arc::clone(cell)) } else { Some(cell(extensions)) }
}

/// Whether an extractor is known to take a request's body and to forget the rest. There is no other way to tell types
/// apart that may borrow; where a name is not recognised, a cell is made in vain.
fn keeps_nothing<E>() -> bool {
    let name = type_name::<E>();
    ["axum::json::Json<", "axum::form::Form<"].iter().any(|known| name.starts_with(known))
        || ["bytes::bytes::Bytes", "alloc::string::String"].contains(&name)
}

#[derive(Clone, Debug, Default)]
struct Slot(Arc<AttemptCell>);

#[cfg(test)]
mod tests {
    use axum::{Form, Json, extract::Request};
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_keeps_nothing_is_recognised() {
        let known = [keeps_nothing::<Json<()>>(), keeps_nothing::<Form<Vec<u8>>>(), keeps_nothing::<Bytes>()];
        assert!(known.into_iter().all(|known| known) && keeps_nothing::<String>());
        let unknown = [keeps_nothing::<Request>(), keeps_nothing::<Option<Json<()>>>(), keeps_nothing::<Attempt>()];
        assert!(!unknown.into_iter().any(|known| known));
    }
}
