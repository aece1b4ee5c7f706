// One error on `fn`: a boxed future is not awaited by the guard.
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
fn create(State(_app): State<App>) -> std::pin::Pin<Box<dyn Future<Output = StatusCode> + Send>> {
    Box::pin(async move { StatusCode::CREATED })
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(create));
}
