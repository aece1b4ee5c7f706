// One error on `fn`: a ready future is still a future.
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
fn create(State(_app): State<App>) -> std::future::Ready<StatusCode> {
    std::future::ready(StatusCode::CREATED)
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(create));
}
