// One error on the ttl: the lease it is too short for is not written.
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

#[idempotent(ttl = "10s")]
async fn create(State(_app): State<App>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(create));
}
