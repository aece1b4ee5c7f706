// One error on `Sse`.
#![allow(unused)]

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use axum::response::sse::{Event, Sse};
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

type Events = futures::stream::Empty<Result<Event, std::convert::Infallible>>;

#[idempotent(ttl = "24h")]
async fn create(State(_app): State<App>) -> Sse<Events> {
    Sse::new(futures::stream::empty())
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(create));
}
