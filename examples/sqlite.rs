//! Orders of one machine: the records are in a file that its processes share.
//!
//! There is no server to start:
//!
//! ```sh
//! cargo run --example sqlite --features sqlite
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
    time::Duration,
};

use axum::{Form, Router, http::StatusCode, routing::post};
use idem_runtime::{Idempotency, idempotent, store::SqliteStore};

#[derive(serde::Deserialize)]
struct Order {
    item: String,
}

#[idempotent(ttl = "24h")]
async fn place_order(Form(order): Form<Order>) -> (StatusCode, String) {
    static ORDERS: AtomicU64 = AtomicU64::new(1);
    let number = ORDERS.fetch_add(1, Ordering::Relaxed);
    (StatusCode::CREATED, format!("order {number}: {}\n", order.item))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let idempotency = Idempotency::new(SqliteStore::open("idem.db")?);
    // Expired records stay in the file until they are purged.
    idempotency.spawn_purger(Duration::from_mins(1));
    let router = Router::new().route("/orders", post(place_order)).with_state(idempotency);
    let port = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    axum::serve(listener, router).await?;
    Ok(())
}
