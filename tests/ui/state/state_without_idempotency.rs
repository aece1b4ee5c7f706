// One error on the state in the attribute.
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

#[derive(Clone)]
struct Plain;

#[idempotent(ttl = "24h", state = Plain)]
async fn create(State(_app): State<Plain>, Json(order): Json<Order>) -> StatusCode {
    let _ = (order.id, order.amount);
    StatusCode::CREATED
}

fn main() {
    let _: Router<Plain> = Router::new().route("/", post(create));
}
