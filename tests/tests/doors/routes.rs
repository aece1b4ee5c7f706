//! The routes of `tests/failure` as plain handlers, each behind a layer with its policy.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, State},
    handler::Handler,
    http::StatusCode,
    response::IntoResponse,
    routing::post,
};
use idem_runtime::{
    Attempt, Policy,
    http::LayerPolicy,
    policy::{Outage, Unknown},
};

use crate::app::{App, Ledger, Panics, held_up, panic_once};

/// What stands before an operation's name.
pub(crate) const DOOR: &str = "layer ";

async fn pay(State(ledger): State<Ledger>) -> impl IntoResponse {
    ledger.begin().end()
}

async fn slow(State(ledger): State<Ledger>, attempt: Attempt) -> impl IntoResponse {
    held_up(ledger, attempt).await
}

async fn at_once(State(ledger): State<Ledger>) -> StatusCode {
    panic_once(&ledger)
}

async fn body(State(ledger): State<Ledger>, Path((left, wait)): Path<(usize, bool)>) -> Body {
    ledger.number();
    Body::new(Panics { left, wait })
}

async fn bytes(State(ledger): State<Ledger>, body: Bytes) -> impl IntoResponse {
    ledger.number();
    body.len().to_string()
}

fn day(lease: &str) -> LayerPolicy {
    Policy::ttl("24h").lease(lease)
}

pub(crate) fn router(app: App) -> Router {
    let layer = |policy| app.idempotency.layer(policy);
    let pays = |policy| post(pay).layer(layer(policy));
    let slows = |policy| post(slow).layer(layer(policy));
    Router::new()
        .route("/pay", pays(day("2s")))
        .route("/hold", pays(day("2s").unknown(Unknown::Hold)))
        .route("/run", pays(day("2s").outage(Outage::Run)))
        .route("/optional", pays(day("2s").optional()))
        .route("/slow", slows(day("900ms")))
        .route("/slow-hold", slows(day("900ms").unknown(Unknown::Hold)))
        .route("/awaited", slows(day("30s").wait("20s")))
        .route("/awaited-run", slows(day("30s").wait("20s").outage(Outage::Run)))
        .route("/named", pays(day("30s").operation("named")))
        .route("/at-once", post(at_once).layer(layer(day("2s"))))
        .route("/holding", post(at_once).layer(layer(day("2s").unknown(Unknown::Hold))))
        .route("/body/{left}/{wait}", post(body).layer(layer(day("2s"))))
        .route("/bytes", post(bytes).layer(layer(day("5s"))))
        .fallback(pay.layer(layer(day("30s"))))
        .with_state(app)
}
