// One error on `hold`.
#![allow(unused)]

use axum::{Json, Router, routing::post};
use idem_runtime::{Idempotency, idempotent, store::postgres::Tx};

#[derive(serde::Deserialize)]
struct Order {
    id: String,
}

#[idempotent(ttl = "24h", unknown = hold)]
async fn create(mut tx: Tx, Json(order): Json<Order>) -> &'static str {
    "paid"
}

fn main() {
    let _: Router<Idempotency> = Router::new().route("/", post(create));
}
