// One error on the function: `async_trait` came first.
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

#[async_trait::async_trait]
trait Orders {
    async fn submit(State(app): State<App>) -> StatusCode;
}

#[async_trait::async_trait]
impl Orders for App {
    #[idempotent(ttl = "24h")]
    async fn submit(State(_app): State<App>) -> StatusCode {
        StatusCode::CREATED
    }
}

fn main() {}
