// One error at the route; the type there names what is needed.
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
async fn create(State(_app): State<u32>, Json(order): Json<Order>) -> StatusCode {
    let _ = (order.id, order.amount);
    StatusCode::CREATED
}

fn main() {
    let _: Router<u32> = Router::new().route("/", post(create));
}
