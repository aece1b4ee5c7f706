//! The answers that idempotency itself gives: problem details (RFC 9457).

use std::{fmt, fmt::Write as _, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_LANGUAGE, CONTENT_TYPE, RETRY_AFTER},
};

use crate::fingerprint::Difference;

/// Makes a problem type each: its status, code, title, and how its detail reads; and the enum of them all.
macro_rules! problems {
    (
        $(#[$any_doc:meta])* enum $any:ident;
        $($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* } $status:ident $code:literal $title:literal $detail:expr;)*
    ) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            #[non_exhaustive]
            pub struct $name { $(pub(crate) $field: $type),* }

            impl $name {
                /// The `code` member and the last part of the `type` member.
                pub const CODE: &'static str = $code;
                /// The `title` member.
                pub const TITLE: &'static str = $title;

                /// The status of the answer.
                pub const fn status(&self) -> StatusCode {
                    StatusCode::$status
                }

                /// The `code` member.
                pub const fn code(&self) -> &'static str {
                    Self::CODE
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    let detail: fn(&Self, &mut fmt::Formatter<'_>) -> fmt::Result = $detail;
                    detail(self, f)
                }
            }

            impl std::error::Error for $name {}

            impl From<$name> for $any {
                fn from(problem: $name) -> Self {
                    Self::$name(problem)
                }
            }
        )*

        $(#[$any_doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $any { $(#[doc = concat!("`", $code, "`")] $name($name)),* }

        impl $any {
            /// The status of the answer.
            pub const fn status(&self) -> StatusCode {
                match self { $(Self::$name(problem) => problem.status()),* }
            }

            /// The `code` member.
            pub const fn code(&self) -> &'static str {
                match self { $(Self::$name(_) => $name::CODE),* }
            }

            /// The `title` member.
            pub const fn title(&self) -> &'static str {
                match self { $(Self::$name(_) => $name::TITLE),* }
            }
        }

        impl fmt::Display for $any {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$name(problem) => problem.fmt(f)),* }
            }
        }

        impl std::error::Error for $any {}
    };
}
#[cfg(feature = "webhooks")]
pub(crate) use problems;

problems! {
    /// Any of the problems. Each refusal carries it as a response extension, so that a layer outside can answer in an
    /// application's own format.
    enum Problem;

    /// 400: the operation needs a key and the request has none.
    KeyMissing { header: Option<&'static str> } BAD_REQUEST "idempotency_key_missing"
        "Idempotency-Key is missing"
        |problem, f| match problem.header {
            Some(header) => write!(
                f,
                "This operation must be safe to retry. Send a header `{header}` with a value that is unique to this \
                 operation, such as a UUID, and send the same value again when you retry."
            ),
            None => f.write_str("This operation takes its idempotency key from the request's content, and it is not there."),
        };

    /// 400: the key can't be one.
    KeyInvalid { header: Option<&'static str>, reason: &'static str } BAD_REQUEST "idempotency_key_invalid"
        "Idempotency-Key is invalid"
        |problem, f| match problem.header {
            Some(header) => write!(f, "The header `{header}` can't be used: {}. Send one value of 1 to 255 visible ASCII characters, such as a UUID.", problem.reason),
            None => write!(f, "The idempotency key in the request's content can't be used: {}.", problem.reason),
        };

    /// 422: the key belongs to another request.
    KeyReused { difference: Difference } UNPROCESSABLE_ENTITY "idempotency_key_reused"
        "Idempotency-Key is already used"
        |problem, f| {
            f.write_str("This key was used before with another request: ")?;
            f.write_str(match problem.difference {
                Difference::Target => "the method, path or query differs",
                Difference::Credentials => {
                    "the credentials differ (to the operator: the `scope` option lets callers renew their credentials and keeps them apart)"
                }
                Difference::MediaType => "the media type differs",
                Difference::Body => "the body differs",
                Difference::Unknown => "its record is in a format that can't be compared",
            })?;
            f.write_str(". The earlier request stands. Use a new key for a new operation.")
        };

    /// 409: another attempt with this key runs.
    InProgress { retry_after: Duration } CONFLICT "idempotency_in_progress"
        "A request is outstanding for this Idempotency-Key"
        |_, f| f.write_str("The same request is still being processed. Retry with the same key after the time in `Retry-After`.");

    /// 409: an earlier attempt ended in nobody knows what.
    OutcomeUnknown {} CONFLICT "idempotency_outcome_unknown"
        "The outcome of an earlier request is unknown"
        |_, f| f.write_str("An earlier attempt with this key ended without a known outcome, so it is not run again until someone has decided. Do not retry with another key.");

    /// 503: the store failed before anything ran.
    StoreUnavailable {} SERVICE_UNAVAILABLE "idempotency_store_unavailable"
        "The idempotency store is unavailable"
        |_, f| f.write_str("Nothing was run, because it could not be made safe to retry. Retry with the same key.");

    /// 503: the run was stopped because its lease could not be renewed.
    LeaseLost { lease: Duration } SERVICE_UNAVAILABLE "idempotency_lease_lost"
        "The request was stopped"
        |_, f| f.write_str("The run was stopped half-way because its lease could not be renewed. Retry with the same key.");

    /// 500: the handler is annotated and its router has neither a state nor a layer that brings an `Idempotency`.
    NotInstalled { module: &'static str, handler: &'static str } INTERNAL_SERVER_ERROR "idempotency_not_installed"
        "Idempotency is not installed"
        |problem, f| write!(
            f,
            "The handler `{}::{}` is annotated with #[idempotent] and finds no `Idempotency`: give its router a state that holds one, by `.with_state(app)`, or add `.layer(Extension(idempotency))`.",
            problem.module, problem.handler
        );

    /// 500: the handler takes a transaction that can't be had, or that it did not leave to be committed.
    NotTransactional { handler: &'static str, why: NoTransaction } INTERNAL_SERVER_ERROR "idempotency_not_transactional"
        "The handler's transaction can't be shared"
        |problem, f| {
            write!(f, "The handler `{}` takes a `Tx`", problem.handler)?;
            match problem.why {
                NoTransaction::Store(store) => write!(
                    f, ", and the `{store}` store has no transactions to share: use `PostgresStore`, or take the `Tx` out."
                ),
                NoTransaction::Twice => f.write_str(" more than once: its record commits in one transaction, so take one `Tx` out."),
                NoTransaction::Hold => f.write_str(
                    " and says `unknown = hold`: a transaction leaves no outcome unknown, so take one of the two out.",
                ),
                NoTransaction::Ended => f.write_str(
                    " and ended its transaction itself, or kept it beyond its answer: leave COMMIT and ROLLBACK to the guard, and drop the `Tx`.",
                ),
            }
        };

    /// 503: the handler's transaction was rolled back, because of a conflict or a broken connection.
    RolledBack {} SERVICE_UNAVAILABLE "idempotency_rolled_back"
        "The request was rolled back"
        |_, f| f.write_str("The request conflicted with another one or lost its connection to the database, and everything that it did there was undone. Retry with the same key.");

    /// 503: the answer to the commit was lost.
    CommitUnknown {} SERVICE_UNAVAILABLE "idempotency_commit_unknown"
        "The request may have been carried out"
        |_, f| f.write_str("The database's answer to the commit was lost. Retry with the same key: the request is carried out once, whether this was it or not.");

    /// 500: what the handler wrote can't be committed, such as a violation of a deferred constraint.
    CommitRefused {} INTERNAL_SERVER_ERROR "idempotency_commit_refused"
        "The request can't be committed"
        |_, f| f.write_str("The database refused to commit what the request did there, and undid it.");
}

/// Why a handler can't have its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTransaction {
    /// The store, by its name, has none.
    Store(&'static str),
    /// It asked for more than one.
    Twice,
    /// It asks to hold unknown outcomes, and there are none.
    Hold,
    /// It ended or kept the one it had.
    Ended,
}

impl Problem {
    /// Seconds for `Retry-After`, where retrying helps.
    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::InProgress(problem) => Some(problem.retry_after.as_millis().div_ceil(1000).max(1)),
            Self::LeaseLost(problem) => Some(problem.lease.as_millis().div_ceil(1000).max(1)),
            Self::StoreUnavailable(_) | Self::RolledBack(_) | Self::CommitUnknown(_) => Some(1),
            _ => None,
        }
        .map(|seconds| u64::try_from(seconds).unwrap_or(u64::MAX))
    }

    /// The answer. `base` is what `type` begins with.
    pub(crate) fn respond(self, base: &str) -> Response {
        let mut response = answer(base, self.status(), self.code(), self.title(), &self.to_string());
        if let Some(seconds) = self.retry_after() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// A problem as an answer. None of its text may come from a request.
pub(crate) fn answer(base: &str, status: StatusCode, code: &str, title: &str, detail: &str) -> Response {
    let mut body = String::with_capacity(384);
    // Nothing here comes from a request, so quotes and backslashes are all there is to escape.
    let mut member = |before: &str, value: &str| {
        body.push_str(before);
        value.chars().for_each(|char| match char {
            '"' | '\\' => body.extend(['\\', char]),
            _ => body.push(char),
        });
    };
    member("{\"type\":\"", base);
    member("", code);
    member("\",\"title\":\"", title);
    member("\",\"detail\":\"", detail);
    let _ = write!(body, "\",\"status\":{},\"code\":\"{code}\"}}", status.as_u16());
    let mut response = (status, Body::from(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
    response
}
