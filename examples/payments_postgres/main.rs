//! Payments that happen exactly once: the record commits with the payment's own row.
//!
//! Start a server, and the example:
//!
//! ```sh
//! docker run --rm -p 5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust postgres:17
//! DATABASE_URL=postgres://postgres@localhost/postgres cargo run --example payments_postgres --features postgres
//! ```
//!
//! or, where Debian's `postgresql-common` is installed, both at once with a server that is thrown away afterwards:
//!
//! ```sh
//! pg_virtualenv cargo run --example payments_postgres --features postgres
//! ```
//!
//! Then send a payment twice, and look at what is there. However the process dies, there is one row for each key that was
//! answered, and never a second one:
//!
//! ```sh
//! curl -i localhost:3000/payments -H "Idempotency-Key: a8f3b2c1" --json '{"amount": 2000, "currency": "eur"}'
//! curl localhost:3000/payments
//! ```
//!
//! `PORT` sets the port.

use std::{
    env,
    error::Error,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{FromRef, State},
    http::StatusCode,
    routing::post,
};
use idem_runtime::{
    Idempotency, idempotent,
    store::{PostgresStore, postgres::Tx},
};
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::net::TcpListener;

use auth::AuthUser;
use payment::{Order, Payment, PaymentError};

#[path = "../payments/auth.rs"]
mod auth;
mod payment;
#[path = "../shutdown.rs"]
mod shutdown;

#[derive(Clone, FromRef)]
struct App {
    pool: PgPool,
    idempotency: Idempotency,
}

/// Pays once per key and user. An error leaves nothing behind, at whichever statement it comes.
#[idempotent(ttl = "24h", scope = user.name)]
async fn create_payment(
    mut tx: Tx,
    user: AuthUser,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Payment>), PaymentError> {
    let payment = Payment::insert(&mut tx, &user.name, &order).await?;
    // The receipt leaves with the payment or not at all; a worker sends it at least once.
    sqlx::query("INSERT INTO outbox (receipt_for) VALUES ($1)").bind(payment.id()).execute(&mut *tx).await?;
    let id = payment.id();
    tx.after_commit(async move { tracing::info!(payment = id, "committed") });
    Ok((StatusCode::CREATED, Json(payment)))
}

/// What was really paid.
async fn list_payments(State(pool): State<PgPool>, user: AuthUser) -> Result<Json<Vec<Payment>>, PaymentError> {
    Ok(Json(Payment::of(&pool, &user.name).await?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_env_filter(env::var("RUST_LOG").unwrap_or_else(|_| "info".into())).init();

    // Without a URL the environment of PostgreSQL's own programs counts: PGHOST, PGPORT, PGUSER and so on.
    let options =
        env::var("DATABASE_URL").map_or_else(|_| Ok(sqlx::postgres::PgConnectOptions::new()), |url| url.parse())?;
    let pool =
        PgPoolOptions::new().max_connections(16).acquire_timeout(Duration::from_secs(1)).connect_with(options).await?;
    sqlx::raw_sql(payment::TABLES).execute(&pool).await?;
    let store = PostgresStore::new(pool.clone());
    store.migrate().await?;
    let idempotency = Idempotency::new(store);
    idempotency.spawn_purger(Duration::from_mins(1));
    let app = App { pool, idempotency: idempotency.clone() };
    let router = Router::new().route("/payments", post(create_payment).get(list_payments)).with_state(app);

    let port = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    tracing::info!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, router).with_graceful_shutdown(shutdown::asked()).await?;
    idempotency.drain(Duration::from_secs(30)).await;
    Ok(())
}
