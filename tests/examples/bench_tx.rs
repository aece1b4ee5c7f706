//! The guarded handler against the same one with its idempotency written by hand, side by side in one run.
//!
//! `cargo run --release -p idem-tests --features postgres --example bench_tx`; `BENCH_SECONDS` is how long one round lasts.
//!
//! Both insert a payment in one transaction with the key's record, on a pool of sixteen: by hand that is BEGIN, INSERT … ON
//! CONFLICT, the payment, UPDATE of the record with the answer, COMMIT. Every request has a new key.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a measurement ends where it fails"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::{Body, Bytes, to_bytes},
    extract::{FromRef, State},
    http::{HeaderMap, Request, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use idem_runtime::{
    Idempotency, idempotent,
    store::{PostgresStore, postgres::Tx},
};
use idem_tests::postgres::{Postgres, execute};
use sqlx::{PgConnection, PgPool, postgres::PgPoolOptions};
use tower::ServiceExt as _;

const ROUNDS: usize = 5;

#[derive(Clone, FromRef)]
struct App {
    pool: PgPool,
    idempotency: Idempotency,
}

#[derive(serde::Deserialize)]
struct Order {
    amount: i64,
    currency: String,
}

async fn insert(connection: &mut PgConnection, order: &Order) -> i64 {
    sqlx::query_scalar("INSERT INTO payments (amount, currency) VALUES ($1, $2) RETURNING id")
        .bind(order.amount)
        .bind(&order.currency)
        .fetch_one(connection)
        .await
        .unwrap()
}

#[idempotent(ttl = "24h")]
async fn guarded(mut tx: Tx, Json(order): Json<Order>) -> (StatusCode, Json<i64>) {
    (StatusCode::CREATED, Json(insert(&mut tx, &order).await))
}

async fn by_hand(State(pool): State<PgPool>, headers: HeaderMap, body: Bytes) -> Response {
    let key = headers["idempotency-key"].to_str().unwrap();
    let order: Order = serde_json::from_slice(&body).unwrap();
    let mut tx = pool.begin().await.unwrap();
    let first = sqlx::query("INSERT INTO keys (key, request) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING")
        .bind(key)
        .bind(&body[..])
        .execute(&mut *tx)
        .await
        .unwrap();
    assert_eq!(first.rows_affected(), 1, "every key is new");
    let answer = Json(insert(&mut tx, &order).await);
    sqlx::query("UPDATE keys SET status = 201, response = $2 WHERE key = $1")
        .bind(key)
        .bind(serde_json::to_vec(&answer.0).unwrap())
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    (StatusCode::CREATED, answer).into_response()
}

/// Requests per second.
async fn rate(router: &Router, path: &'static str, clients: usize, lasts: Duration) -> f64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (done, began) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            let (router, done) = (router.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while began.elapsed() < lasts {
                    let request = Request::post(path)
                        .header("idempotency-key", format!("key-{}", NEXT.fetch_add(1, Relaxed)))
                        .header("content-type", "application/json")
                        .body(Body::from(r#"{"amount": 2000, "currency": "eur"}"#))
                        .unwrap();
                    let answer = router.clone().oneshot(request).await.unwrap();
                    assert_eq!(answer.status(), StatusCode::CREATED);
                    to_bytes(answer.into_body(), 1 << 20).await.unwrap();
                    done.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    f64::from(u32::try_from(done.load(Relaxed)).unwrap()) / began.elapsed().as_secs_f64()
}

#[tokio::main]
async fn main() {
    let server = Postgres::start().expect("PostgreSQL is installed");
    let lasts = std::env::var("BENCH_SECONDS").map_or(2.0, |seconds| seconds.parse().unwrap());
    let pool = PgPoolOptions::new().max_connections(16).connect(&server.url()).await.unwrap();
    let store = PostgresStore::new(pool.clone());
    store.migrate().await.unwrap();
    let tables = "CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint, currency text); \
                  CREATE TABLE keys (key text PRIMARY KEY, request bytea, status int, response bytea)";
    execute(&pool, tables).await;
    let app = App { pool: pool.clone(), idempotency: Idempotency::new(store) };
    let router = Router::new().route("/guarded", post(guarded)).route("/hand", post(by_hand)).with_state(app);
    for sync in ["on", "off"] {
        execute(&pool, format!("ALTER SYSTEM SET synchronous_commit = {sync}")).await;
        execute(&pool, "SELECT pg_reload_conf()").await;
        for clients in [1, 16] {
            let mut ratios = Vec::new();
            for round in 0..=ROUNDS {
                // Taking turns in who goes first.
                let order = if round % 2 == 0 { ["/guarded", "/hand"] } else { ["/hand", "/guarded"] };
                let mut rates = [0.0; 2];
                for path in order {
                    let rate = rate(&router, path, clients, Duration::from_secs_f64(lasts)).await;
                    rates[usize::from(path == "/hand")] = rate;
                }
                let [guarded, hand] = rates;
                // The first round warms up.
                if round > 0 {
                    println!("sync {sync}, {clients} clients: guarded {guarded:.0}/s, by hand {hand:.0}/s");
                    ratios.push(guarded / hand);
                }
            }
            ratios.sort_by(f64::total_cmp);
            println!("sync {sync}, {clients} clients: ratio {:.2} (of {ratios:.2?})", ratios[ratios.len() / 2]);
        }
    }
}
