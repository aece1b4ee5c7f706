// One error on `header_name`: did you mean `header`?
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

#[idempotent(ttl = "24h", header_name = "X-Request-Id")]
async fn create(State(app): State<App>, Json(order): Json<Order>) -> StatusCode {
    let _ = (app.idempotency, order.id, order.amount);
    StatusCode::CREATED
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(create));
}
