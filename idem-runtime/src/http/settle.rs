//! Which answers are kept.

use http::StatusCode;

use crate::policy::{Record, Unknown};

/// Overrides for one answer what becomes of the record: return it as `Extension(Settle::Release)` beside the response.
///
/// ```
/// use axum::{Extension, http::StatusCode, response::IntoResponse};
/// use idem_runtime::Settle;
///
/// fn charge_may_have_happened() -> impl IntoResponse {
///     // Nobody may run this again until someone has looked at the bank's side.
///     (StatusCode::BAD_GATEWAY, Extension(Settle::Hold), "the bank did not answer")
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// Store this answer and replay it.
    Keep,
    /// Forget the claim: a retry runs again.
    Release,
    /// Mark the outcome unknown: retries get 409 until someone calls
    /// [`Idempotency::forget`](crate::Idempotency::forget) or the ttl is over.
    Hold,
}

/// Statuses that say "not now" or "not you": the same request may fare better later, so they are not kept.
const fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 407 | 408 | 409 | 421 | 423 | 425 | 429)
}

/// Whether what a handler wrote in its record's transaction is committed with this answer.
pub(super) fn commits(status: StatusCode, choice: Option<Settle>) -> bool {
    match choice {
        Some(choice) => choice == Settle::Keep,
        None => status.is_success() || status.is_redirection(),
    }
}

/// What the policy makes of an answer with this status.
pub(super) fn decide(status: StatusCode, record: Record, unknown: Unknown) -> Settle {
    let keep = match record {
        Record::All => !status.is_informational(),
        Record::Success => status.is_success(),
        Record::Deterministic => {
            status.is_success() || status.is_redirection() || (status.is_client_error() && !is_passing(status))
        }
    };
    match unknown {
        _ if keep => Settle::Keep,
        Unknown::Hold if status.is_server_error() => Settle::Hold,
        Unknown::Hold | Unknown::Retry => Settle::Release,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(record: Record) -> Vec<u16> {
        [200, 201, 204, 303, 400, 401, 403, 404, 407, 408, 409, 410, 421, 422, 423, 425, 429, 500, 503]
            .into_iter()
            .filter(|&status| decide(StatusCode::from_u16(status).unwrap(), record, Unknown::Retry) == Settle::Keep)
            .collect()
    }

    #[test]
    fn keeps_by_policy() {
        assert_eq!(kept(Record::Deterministic), [200, 201, 204, 303, 400, 404, 410, 422]);
        assert_eq!(kept(Record::Success), [200, 201, 204]);
        assert_eq!(kept(Record::All).len(), 19);
    }

    #[test]
    fn hold_concerns_server_errors_only() {
        let held = |status, record| decide(status, record, Unknown::Hold);
        assert_eq!(held(StatusCode::BAD_GATEWAY, Record::Deterministic), Settle::Hold);
        assert_eq!(held(StatusCode::TOO_MANY_REQUESTS, Record::Deterministic), Settle::Release);
        assert_eq!(held(StatusCode::BAD_GATEWAY, Record::All), Settle::Keep);
    }
}
