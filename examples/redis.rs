//! Orders of many machines: the records are in Redis.
//!
//! ```sh
//! redis-server --appendonly yes --appendfsync always --maxmemory-policy noeviction
//! cargo run --example redis --features redis
//! ```
//!
//! Then send an order twice, also to a second process (`PORT=3001 …`): it is taken once.
//!
//! ```sh
//! curl -i localhost:3000/orders -H "Idempotency-Key: a8f3b2c1" -d item=book
//! ```

use std::{
    env,
    error::Error,
    net::Ipv4Addr,
    sync::atomic::{AtomicU64, Ordering},
};

use axum::{Form, Router, http::StatusCode, routing::post};
use idem_runtime::{Idempotency, idempotent, store::RedisStore};

#[derive(serde::Deserialize)]
struct Order {
    item: String,
}

// A duplicate waits for the running attempt, and is woken when it ends on whichever process.
#[idempotent(ttl = "24h", wait = "5s")]
async fn place_order(Form(order): Form<Order>) -> (StatusCode, String) {
    static ORDERS: AtomicU64 = AtomicU64::new(1);
    let number = ORDERS.fetch_add(1, Ordering::Relaxed);
    (StatusCode::CREATED, format!("order {number}: {}\n", order.item))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://localhost".into());
    let idempotency = Idempotency::new(RedisStore::connect(url).await?);
    let router = Router::new().route("/orders", post(place_order)).with_state(idempotency);
    let port = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    axum::serve(listener, router).await?;
    Ok(())
}
