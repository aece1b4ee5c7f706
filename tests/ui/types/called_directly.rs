// The compiler's errors on the call; the handler as written has a name with `inner` only.
#![allow(unused)]

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use idem_runtime::{HasIdempotency, Idempotency, idempotent};

#[derive(Clone)]
struct App {
    idempotency: Idempotency,
}

impl HasIdempotency for App {
    fn idempotency(&self) -> &Idempotency {
        &self.idempotency
    }
}

#[derive(serde::Deserialize)]
struct Order {
    id: String,
    amount: u64,
}

#[idempotent(ttl = "24h")]
async fn create(State(_app): State<App>) -> StatusCode {
    StatusCode::CREATED
}

async fn other(state: State<App>) -> StatusCode {
    create(state).await
}

fn main() {}
