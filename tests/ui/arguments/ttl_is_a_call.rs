// One error on the call: the attribute knows no values.
#![allow(unused)]

use std::time::Duration;

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

#[idempotent(ttl = Duration::from_secs(86_400))]
async fn create(State(app): State<App>, Json(order): Json<Order>) -> StatusCode {
    let _ = (app.idempotency, order.id, order.amount);
    StatusCode::CREATED
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(create));
}
