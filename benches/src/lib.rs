//! What the measurements share: one small application and its requests, and the sources of what has no public door.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a measurement ends where it fails"
)]

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::Request,
    routing::{MethodRouter, post},
};
use http::header::CONTENT_TYPE;
use idem_runtime::{Idempotency, idempotent};
use serde::{Deserialize, Serialize};

// The runtime's own sources, as they have no public door; their unit tests belong to the runtime.
#[cfg(not(test))]
#[path = "../../idem-runtime/src/fingerprint/mod.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "the runtime's own file")]
mod fingerprint;
#[cfg(not(test))]
#[path = "../../idem-runtime/src/http/key.rs"]
#[allow(dead_code, reason = "the runtime's own file")]
mod key;
#[cfg(not(test))]
#[path = "../../idem-runtime/src/policy.rs"]
#[allow(dead_code, unreachable_pub, reason = "the runtime's own file")]
mod policy;

pub mod bodies;

/// The body that every request of the HTTP measurements has: 92 bytes.
pub const ORDER: &str =
    r#"{"account":"acct_1N8r2fE4","amount":129900,"currency":"eur","reference":"order 2026-000042"}"#;

/// A payment order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    account: String,
    amount: u64,
    currency: String,
    reference: String,
}

async fn bare(Json(order): Json<Order>) -> Json<Order> {
    Json(order)
}

#[idempotent(ttl = "24h")]
async fn guarded(Json(order): Json<Order>) -> Json<Order> {
    Json(order)
}

#[idempotent(ttl = "24h", optional)]
async fn optional(Json(order): Json<Order>) -> Json<Order> {
    Json(order)
}

static SLOW_RUNS: AtomicUsize = AtomicUsize::new(0);

#[idempotent(ttl = "24h", wait = "30s")]
async fn slow(Json(order): Json<Order>) -> Json<Order> {
    SLOW_RUNS.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(50)).await;
    Json(order)
}

/// How often `/slow` ran.
pub fn slow_runs() -> usize {
    SLOW_RUNS.load(Ordering::Relaxed)
}

/// The handler without the attribute.
pub fn bare_route<S: Clone + Send + Sync + 'static>() -> MethodRouter<S> {
    post(bare)
}

/// The annotated handlers over one store: `/guarded`, `/optional`, and `/slow`, whose duplicates wait.
pub fn annotated(idempotency: Idempotency) -> Router {
    annotated_at("", idempotency)
}

/// The same below `prefix`, which is part of each route: nesting costs what no other case pays.
pub fn annotated_at(prefix: &str, idempotency: Idempotency) -> Router {
    Router::new()
        .route(&format!("{prefix}/guarded"), post(guarded))
        .route(&format!("{prefix}/optional"), post(optional))
        .route(&format!("{prefix}/slow"), post(slow))
        .with_state(idempotency)
}

/// A request as a client sends it.
pub fn request(path: &str, key: Option<&str>) -> Request {
    let mut request = Request::post(path).header(CONTENT_TYPE, "application/json");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request.body(Body::from(ORDER)).expect("a request")
}

/// A key that was never sent before.
pub fn fresh_key() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("random bytes");
    bytes.iter().fold(String::with_capacity(32), |mut key, byte| {
        let _ = write!(key, "{byte:02x}");
        key
    })
}

/// Fingerprints a body of this type, as a request to a fixed path without credentials.
#[cfg(not(test))]
pub fn fingerprint_of(content_type: &str, body: &[u8]) -> [u8; 45] {
    *fingerprint::Fingerprint::of(&fingerprint::Parts {
        method: "POST",
        path: "/payments",
        query: None,
        credentials: &[],
        content_type: Some(content_type.as_bytes()),
        body,
        mode: policy::BodyFingerprint::ByContentType,
    })
    .as_bytes()
}

/// Reads a key header; says how long the key is.
#[cfg(not(test))]
pub fn key_length(headers: &http::HeaderMap) -> usize {
    key::read(headers, "Idempotency-Key").ok().flatten().map_or(0, |key| key.as_bytes().len())
}
