//! A small payment service that is safe to retry.
//!
//! `cargo run --example payments`, then send a charge twice:
//!
//! ```sh
//! curl -i localhost:3000/v1/charges -H "Idempotency-Key: a8f3b2c1" -d amount=2000 -d currency=eur
//! ```
//!
//! The second answer is a replay; `curl localhost:3000/metrics` counts it.
//!
//! Its OpenAPI document is at `localhost:3000/openapi.json`.
//!
//! `PORT` sets the port, `LEDGER` a file that charges are appended to, `BANK_MS` how slow the bank is: a charge
//! takes the remainder of its amount by this, in milliseconds (amount=1500 with `BANK_MS=2000`: 1.5 s). `IDEM_STORE` is the store by its
//! URL (`memory:` unless set): add `--features postgres` and the like for the others.

use std::{
    env,
    error::Error,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use axum::{
    Form, Json, Router,
    extract::{FromRef, State},
    http::StatusCode,
    routing::{get, post},
};
use idem_runtime::{Idempotency, http::IdempotentOperations, idempotent};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use utoipa::OpenApi;

use auth::AuthUser;
use bank::{Bank, ChargeError, NotCharged, Order, Payment};
use document::Authorization;

mod auth;
mod bank;
mod document;
#[path = "../shutdown.rs"]
mod shutdown;

#[derive(Clone, FromRef)]
struct App {
    bank: Bank,
    idempotency: Idempotency,
    metrics: PrometheusHandle,
}

/// What clients generate their code from. The modifier adds the key and idempotency's own answers to the annotated routes.
#[derive(OpenApi)]
#[openapi(
    info(title = "Payments", description = "Charges that are safe to retry."),
    paths(create_payment, create_charge, list_payments),
    modifiers(&ANNOTATED)
)]
struct Document;

const ANNOTATED: IdempotentOperations = IdempotentOperations(&["create_payment", "create_charge"]);

/// Charges once per key and user, however often it is sent; after a crash, once more when the lease is over.
#[utoipa::path(post, path = "/payments", params(Authorization), request_body = Order, responses(
    (status = 201, description = "Charged.", body = Payment),
    (status = 400, description = "Not JSON.", content_type = "text/plain", body = String),
    (status = 401, description = "Not a caller.", content_type = "text/plain", body = String),
    (status = 415, description = "Not `application/json`.", content_type = "text/plain", body = String),
    (status = 422, description = "Nothing was charged.", content((NotCharged = "application/json"), (String = "text/plain"))),
    (status = 500, description = "The bank is closed.", body = NotCharged),
))]
#[idempotent(ttl = "24h", lease = "5s", scope = user.name)]
async fn create_payment(
    State(bank): State<Bank>,
    user: AuthUser,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Payment>), ChargeError> {
    Ok((StatusCode::CREATED, Json(bank.charge(&user.name, order).await?)))
}

/// The same, as a form: the shape of Stripe's API. After a crash nobody charges again until someone has looked.
#[utoipa::path(post, path = "/v1/charges", params(Authorization),
    request_body(content = Order, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "Charged.", body = Payment),
        (status = 400, description = "Not a form.", content_type = "text/plain", body = String),
        (status = 401, description = "Not a caller.", content_type = "text/plain", body = String),
        (status = 415, description = "Not a form.", content_type = "text/plain", body = String),
        (status = 422, description = "Nothing was charged.", content((NotCharged = "application/json"), (String = "text/plain"))),
        (status = 500, description = "The bank is closed.", body = NotCharged),
    )
)]
#[idempotent(ttl = "24h", lease = "5s", unknown = hold, scope = user.name)]
async fn create_charge(
    State(bank): State<Bank>,
    user: AuthUser,
    Form(order): Form<Order>,
) -> Result<Json<Payment>, ChargeError> {
    Ok(Json(bank.charge(&user.name, order).await?))
}

/// What was really charged.
#[utoipa::path(get, path = "/payments", params(Authorization), responses(
    (status = 200, description = "The caller's payments.", body = [Payment]),
    (status = 401, description = "Not a caller.", content_type = "text/plain", body = String),
))]
async fn list_payments(State(bank): State<Bank>, user: AuthUser) -> Json<Vec<Payment>> {
    Json(bank.payments(&user.name))
}

async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}

/// For Prometheus: `idem_requests_total` by outcome, among others.
async fn metrics(State(metrics): State<PrometheusHandle>) -> String {
    metrics.render()
}

/// Folds the recorded times together, so that they don't pile up where nobody asks for them.
async fn keep_up(metrics: PrometheusHandle) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        metrics.run_upkeep();
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_env_filter(env::var("RUST_LOG").unwrap_or_else(|_| "info".into())).init();

    let store = env::var("IDEM_STORE").unwrap_or_else(|_| "memory:".into());
    let idempotency = Idempotency::connect(&store).await?;
    let metrics = PrometheusBuilder::new().install_recorder()?;
    tokio::spawn(keep_up(metrics.clone()));
    // Not every store frees its expired records by itself.
    idempotency.spawn_purger(Duration::from_mins(1));
    let app = App { bank: Bank::open()?, idempotency: idempotency.clone(), metrics };
    let router = Router::new()
        .route("/payments", post(create_payment).get(list_payments))
        .route("/v1/charges", post(create_charge))
        .route("/openapi.json", get(openapi))
        .route("/metrics", get(self::metrics))
        .with_state(app);

    let port = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    tracing::info!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, router).with_graceful_shutdown(shutdown::asked()).await?;

    // Handlers run detached from their connections: give those that still work time to end.
    let unfinished = idempotency.drain(Duration::from_secs(30)).await;
    if unfinished > 0 {
        tracing::warn!(unfinished, "stopped with payments still running");
    }
    Ok(())
}
