// The compiler's error on the parameter that a nested function can't name; `inner = Self::name` is the way.
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

struct Shop<L>(L);

impl<L: Send + Sync + Clone + 'static> Shop<L> {
    #[idempotent(ttl = "24h", store = layer)]
    async fn create(State(_ledger): State<L>) -> StatusCode {
        StatusCode::CREATED
    }
}

fn main() {}
