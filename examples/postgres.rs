//! Orders of many machines: the records are in PostgreSQL, in the application's own pool.
//!
//! Handlers that write to the same database get more from the example `payments_postgres`.
//!
//! ```sh
//! docker run --rm -p 5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust postgres:17
//! cargo run --example postgres --features postgres
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
use idem_runtime::{Idempotency, idempotent, store::PostgresStore};
use sqlx::PgPool;

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
    let url = env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://postgres@localhost/postgres".into());
    let store = PostgresStore::new(PgPool::connect(&url).await?);
    // Or run the SQL file of the crate beside your own migrations.
    store.migrate().await?;
    let idempotency = Idempotency::new(store);
    // Expired records stay in the table until they are purged.
    idempotency.spawn_purger(Duration::from_mins(1));
    let router = Router::new().route("/orders", post(place_order)).with_state(idempotency);
    let port = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    axum::serve(listener, router).await?;
    Ok(())
}
