//! Why a delivery was refused: problem details (RFC 9457).

use std::fmt;

use axum::{
    extract::rejection::BytesRejection,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE};

use crate::{
    Idempotency,
    http::{answer, problems},
};

problems! {
    /// Any of the problems of a delivery. Each refusal carries it as a response extension, so that a layer outside can answer
    /// in an application's own format.
    enum WebhookProblem;

    /// 401: the delivery isn't signed.
    SignatureMissing { header: &'static str } UNAUTHORIZED "webhook_signature_missing"
        "The webhook is not signed"
        |problem, f| write!(f, "The header `{}` is missing. Nothing was run.", problem.header);

    /// 401: no secret makes this signature of these bytes.
    SignatureInvalid { reason: &'static str } UNAUTHORIZED "webhook_signature_invalid"
        "The webhook's signature is wrong"
        |problem, f| write!(f, "{}. Nothing was run.", problem.reason);

    /// 400: the signature is right, and made too long ago or in the future. Not 401, so that an operator can tell a clock
    /// that is wrong from a secret that is.
    Stale {} BAD_REQUEST "webhook_stale"
        "The webhook's timestamp is too far from now"
        |_, f| f.write_str("The signature is right and its timestamp is outside the tolerance: the delivery was repeated by someone else, was held up, or a clock is wrong. Nothing was run.");

    /// 400: the delivery is authentic and has no id that a repeated one could be known by.
    EventIdMissing { place: &'static str } BAD_REQUEST "webhook_id_missing"
        "The webhook has no id"
        |problem, f| write!(f, "The event's id is not in {}. Nothing was run.", problem.place);

    /// 400: the delivery is authentic and its body isn't what the handler takes.
    PayloadInvalid { line: usize, column: usize } BAD_REQUEST "webhook_payload_invalid"
        "The webhook's payload can't be read"
        |problem, f| write!(f, "The body is not the JSON that is expected, as seen at line {} column {}. Nothing was run.", problem.line, problem.column);

    /// 500: the router has no state, and no layer brings the secrets.
    SecretsNotInstalled { sender: &'static str } INTERNAL_SERVER_ERROR "webhook_secrets_not_installed"
        "Webhook secrets are not installed"
        |problem, f| write!(f, "No `WebhookSecrets<{0}>` is found: give the router a state that holds them, by `.with_state(app)`, or add `.layer(Extension(secrets))`.", problem.sender);
}

impl From<serde_json::Error> for WebhookProblem {
    // The error's own text may quote the payload.
    fn from(error: serde_json::Error) -> Self {
        PayloadInvalid { line: error.line(), column: error.column() }.into()
    }
}

impl IntoResponse for WebhookProblem {
    fn into_response(self) -> Response {
        let base = Idempotency::PROBLEM_BASE;
        let mut response = answer(base, self.status(), self.code(), self.title(), &self.to_string());
        if self.status() == StatusCode::UNAUTHORIZED {
            // RFC 9110 §11.6.1 wants a challenge beside every 401.
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Webhook-Signature"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Why a [`Webhook`](super::Webhook) extractor gave no event. The handler doesn't run and nothing is claimed.
#[derive(Debug)]
#[non_exhaustive]
pub enum WebhookRejection {
    /// The delivery is refused.
    Problem(WebhookProblem),
    /// The delivery is the sender's question whether this endpoint is ours, and was rightly signed: answered by 200 with this
    /// challenge (Slack's `url_verification`).
    Handshake(String),
    /// The body can't be read, or is larger than the router's limit: axum's own answer, such as 413.
    Body(BytesRejection),
}

impl WebhookRejection {
    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Problem(problem) => problem.status(),
            Self::Handshake(_) => StatusCode::OK,
            Self::Body(rejection) => rejection.status(),
        }
    }
}

impl<P: Into<WebhookProblem>> From<P> for WebhookRejection {
    fn from(problem: P) -> Self {
        Self::Problem(problem.into())
    }
}

impl fmt::Display for WebhookRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problem(problem) => problem.fmt(f),
            Self::Handshake(_) => f.write_str("The delivery is a handshake."),
            Self::Body(rejection) => rejection.fmt(f),
        }
    }
}

impl std::error::Error for WebhookRejection {}

impl IntoResponse for WebhookRejection {
    fn into_response(self) -> Response {
        match self {
            Self::Problem(problem) => problem.into_response(),
            Self::Handshake(challenge) => challenge.into_response(),
            Self::Body(rejection) => rejection.into_response(),
        }
    }
}
