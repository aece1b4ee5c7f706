// One error: a caller of the handler as written finds it.
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

#[idempotent(ttl = "forever", inner = create_unguarded)]
async fn create(State(app): State<App>) -> StatusCode {
    drop(app);
    StatusCode::CREATED
}

async fn other(state: State<App>) -> StatusCode {
    create_unguarded(state).await
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(create)).route("/other", post(other));
}
