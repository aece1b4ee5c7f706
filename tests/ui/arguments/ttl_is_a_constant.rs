// One error on `TTL`: the attribute knows no values.
#![allow(unused)]

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use idem_runtime::{HasIdempotency, Idempotency, idempotent};

const TTL: &str = "24h";

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

#[idempotent(ttl = TTL)]
async fn create(State(app): State<App>, Json(order): Json<Order>) -> StatusCode {
    let _ = (app.idempotency, order.id, order.amount);
    StatusCode::CREATED
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(create));
}
