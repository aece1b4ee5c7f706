//! A handler whose record commits with its payment, beside the same one with its idempotency written by hand: BEGIN,
//! INSERT … ON CONFLICT, the payment, UPDATE of the record with the answer, COMMIT. Every request has a new key.

use std::time::Duration;

use axum::{
    Json, Router,
    body::{Body, Bytes, to_bytes},
    extract::{FromRef, State},
    http::{HeaderMap, Request, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use idem_benches::fresh_key;
use idem_runtime::{
    Idempotency, idempotent,
    store::{PostgresStore, postgres::Tx},
};
use sqlx::{PgConnection, PgPool, query, query_scalar, raw_sql};
use tower::ServiceExt as _;

use crate::{
    postgres::connect,
    turns::{Turns, rate},
};

const TABLES: &str = "CREATE TABLE IF NOT EXISTS payments
  (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint, currency text);
  CREATE TABLE IF NOT EXISTS keys (key text PRIMARY KEY, request bytea, status int, response bytea)";

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
    query_scalar("INSERT INTO payments (amount, currency) VALUES ($1, $2) RETURNING id")
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
    let first = query("INSERT INTO keys (key, request) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING")
        .bind(key)
        .bind(&body[..])
        .execute(&mut *tx)
        .await
        .unwrap();
    assert_eq!(first.rows_affected(), 1, "every key is new");
    let answer = Json(insert(&mut tx, &order).await);
    query("UPDATE keys SET status = 201, response = $2 WHERE key = $1")
        .bind(key)
        .bind(serde_json::to_vec(&answer.0).unwrap())
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    (StatusCode::CREATED, answer).into_response()
}

async fn send(router: Router, path: &'static str) {
    let request = Request::post(path)
        .header("idempotency-key", fresh_key())
        .header("content-type", "application/json")
        .body(Body::from(r#"{"amount": 2000, "currency": "eur"}"#))
        .unwrap();
    let answer = router.oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);
    to_bytes(answer.into_body(), 1 << 20).await.unwrap();
}

pub(crate) async fn compare(turns: &Turns, url: &str) {
    for clients in [1, 16] {
        let (pool, disk) = connect(url, 16).await;
        let store = PostgresStore::new(pool.clone());
        store.migrate().await.unwrap();
        raw_sql(TABLES).execute(&pool).await.unwrap();
        let app = App { pool: pool.clone(), idempotency: Idempotency::new(store) };
        let router = Router::new().route("/guarded", post(guarded)).route("/hand", post(by_hand)).with_state(app);
        let asked = |path| {
            let router = router.clone();
            async move |lasts: Duration| {
                let router = router.clone();
                rate(clients, lasts, move || send(router.clone(), path)).await
            }
        };
        let what = format!("postgres{disk}: handler in its transaction, of the same by hand");
        turns.compare(&what, clients, Some(0.9), asked("/guarded"), asked("/hand")).await;
        raw_sql("TRUNCATE payments, keys, idem_record").execute(&pool).await.unwrap();
    }
}
