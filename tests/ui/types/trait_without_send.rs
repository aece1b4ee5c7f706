// One error; the compiler shows how the trait says `Send`.
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

trait Ledger: Clone + Send + Sync + 'static {
    async fn book(&self) -> u64;
}

#[idempotent(ttl = "24h", store = layer)]
async fn create<L: Ledger>(State(ledger): State<L>) -> String {
    ledger.book().await.to_string()
}

fn main() {}
