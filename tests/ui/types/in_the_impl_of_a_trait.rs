// One error, of the compiler: a trait's method has the trait's parameters, and the wrapper has its own.
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

trait Orders {
    fn create(state: State<App>) -> impl Future<Output = StatusCode>;
}

impl Orders for App {
    #[idempotent(ttl = "24h")]
    async fn create(State(_app): State<App>) -> StatusCode {
        StatusCode::CREATED
    }
}

fn main() {}
