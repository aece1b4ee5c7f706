// A `return` that a macro hides doesn't skip the scope.
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

macro_rules! leave {
    ($order:expr) => {{
        if $order.amount > 0 {
            return;
        }
        $order.id
    }};
}

#[idempotent(ttl = "24h", scope = leave!(order))]
async fn create(State(app): State<App>, Json(order): Json<Order>) -> StatusCode {
    let _ = (app.idempotency, order.id, order.amount);
    StatusCode::CREATED
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(create));
}
