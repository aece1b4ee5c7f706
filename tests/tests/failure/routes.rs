//! The routes behind the attribute. `tests/doors` has the same behind a layer.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::StatusCode,
    response::IntoResponse,
    routing::post,
};
use idem_runtime::{Attempt, idempotent};

use crate::app::{App, Ledger, Panics, held_up, panic_once};

/// What stands before an operation's name.
pub(crate) const DOOR: &str = "";

#[idempotent(ttl = "24h", lease = "2s")]
async fn pay(State(ledger): State<Ledger>) -> impl IntoResponse {
    ledger.begin().end()
}

#[idempotent(ttl = "24h", lease = "2s", unknown = hold)]
async fn hold(State(ledger): State<Ledger>) -> impl IntoResponse {
    ledger.begin().end()
}

#[idempotent(ttl = "24h", lease = "2s", outage = run)]
async fn run(State(ledger): State<Ledger>) -> impl IntoResponse {
    ledger.begin().end()
}

#[idempotent(ttl = "24h", lease = "2s", optional)]
async fn optional(State(ledger): State<Ledger>) -> impl IntoResponse {
    ledger.begin().end()
}

#[idempotent(ttl = "24h", lease = "900ms")]
async fn slow(State(ledger): State<Ledger>, attempt: Attempt) -> impl IntoResponse {
    held_up(ledger, attempt).await
}

#[idempotent(ttl = "24h", lease = "900ms", unknown = hold)]
async fn slow_hold(State(ledger): State<Ledger>, attempt: Attempt) -> impl IntoResponse {
    held_up(ledger, attempt).await
}

#[idempotent(ttl = "24h", lease = "30s", wait = "20s")]
async fn awaited(State(ledger): State<Ledger>, attempt: Attempt) -> impl IntoResponse {
    held_up(ledger, attempt).await
}

#[idempotent(ttl = "24h", lease = "30s", wait = "20s", outage = run)]
async fn awaited_run(State(ledger): State<Ledger>, attempt: Attempt) -> impl IntoResponse {
    held_up(ledger, attempt).await
}

#[idempotent(ttl = "24h", operation = "named")]
async fn fallback(State(ledger): State<Ledger>) -> impl IntoResponse {
    ledger.begin().end()
}

#[idempotent(ttl = "24h")]
async fn unrouted(State(ledger): State<Ledger>, _: Option<Path<String>>) -> impl IntoResponse {
    ledger.begin().end()
}

/// Panics at its first poll, before any await.
#[idempotent(ttl = "24h", lease = "2s")]
async fn at_once(State(ledger): State<Ledger>) -> StatusCode {
    panic_once(&ledger)
}

#[idempotent(ttl = "24h", lease = "2s", unknown = hold)]
async fn holding(State(ledger): State<Ledger>) -> StatusCode {
    panic_once(&ledger)
}

/// `left` pieces come whole, then a panic; `wait` makes the body a slow one.
#[idempotent(ttl = "24h", lease = "2s")]
async fn body(State(ledger): State<Ledger>, Path((left, wait)): Path<(usize, bool)>) -> Body {
    ledger.number();
    Body::new(Panics { left, wait })
}

/// Takes any bytes, so that half a body would do.
#[idempotent(ttl = "24h", lease = "5s")]
async fn bytes(State(ledger): State<Ledger>, body: Bytes) -> impl IntoResponse {
    ledger.number();
    body.len().to_string()
}

pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/pay", post(pay))
        .route("/hold", post(hold))
        .route("/run", post(run))
        .route("/optional", post(optional))
        .route("/slow", post(slow))
        .route("/slow-hold", post(slow_hold))
        .route("/awaited", post(awaited))
        .route("/awaited-run", post(awaited_run))
        .route("/named", post(fallback))
        .route("/at-once", post(at_once))
        .route("/holding", post(holding))
        .route("/body/{left}/{wait}", post(body))
        .route("/bytes", post(bytes))
        .fallback(unrouted)
        .with_state(app)
}
