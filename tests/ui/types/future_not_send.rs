// One error on the name, with the await.
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
async fn create(State(_app): State<App>) -> StatusCode {
    let rc = std::rc::Rc::new(1);
    std::future::ready(()).await;
    if *rc == 1 { StatusCode::CREATED } else { StatusCode::OK }
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(create));
}
