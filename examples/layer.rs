//! One layer over a router: closures and handlers that somebody else wrote are guarded, an annotated one guards itself.
//!
//! ```sh
//! cargo run --example layer
//! curl -i localhost:3000/orders -H 'Idempotency-Key: k1' -H 'Authorization: Bearer ann' -d coffee
//! ```

use std::{
    error::Error,
    net::Ipv4Addr,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header::AUTHORIZATION},
    middleware::{self, Next},
    response::Response,
    routing::post,
};
use idem_runtime::{Idempotency, Policy, idempotent, store::MemoryStore};
use tokio::net::TcpListener;

/// Who is calling, for everything inside.
#[derive(Clone)]
struct User(String);

async fn authenticate(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let user = User(header.ok_or(StatusCode::UNAUTHORIZED)?.to_owned());
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
}

fn next_number() -> String {
    static ORDERS: AtomicUsize = AtomicUsize::new(0);
    format!("order {}\n", ORDERS.fetch_add(1, Relaxed) + 1)
}

/// Stands below the layer and keeps its own policy.
#[idempotent(ttl = "1h", optional)]
async fn refund() -> String {
    next_number()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let idempotency = Idempotency::new(MemoryStore::new());
    let policy = Policy::ttl("24h").wait("5s").optional().scope(|head| Some(head.extensions.get::<User>()?.0.clone()));
    let router = Router::new()
        .route("/orders", post(async || next_number()))
        .route("/refunds", post(refund))
        .layer(idempotency.layer(policy))
        // Outside, so that it runs on replays too.
        .layer(middleware::from_fn(authenticate))
        .with_state(idempotency);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 3000)).await?;
    axum::serve(listener, router).await?;
    Ok(())
}
