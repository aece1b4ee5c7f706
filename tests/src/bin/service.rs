//! A payment service in a process of its own, for tests that kill it: `IDEM_STORE`, `PORT` and `LEDGER` say where, `WORK_MS` how
//! long its handlers work.
//!
//! Every run of a handler leaves a line in the ledger when it begins and when it ends, which is outside of the store and outlives the process.

#![allow(clippy::expect_used, clippy::panic, reason = "a service that fails fails its test")]

use std::{
    env,
    fs::File,
    io::Write as _,
    net::Ipv4Addr,
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{FromRef, State},
    http::StatusCode,
    routing::{get, post},
};
use idem_runtime::{Idempotency, idempotent};
use serde::Deserialize;
use tokio::{net::TcpListener, time::sleep};

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency,
    ledger: Arc<Ledger>,
}

struct Ledger {
    file: File,
    work: Duration,
    runs: AtomicU64,
}

#[derive(Deserialize)]
struct Order {
    name: String,
}

/// A run, which ends however it ends.
struct Run<'a>(&'a Ledger, &'a str);

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.0.write(&format!("{} ended", self.1));
    }
}

impl Ledger {
    fn write(&self, line: &str) {
        // One write of one line in append mode, so that processes don't mix theirs.
        (&self.file).write_all(format!("{line}\n").as_bytes()).expect("write to the ledger");
    }

    /// The effect, then the work: an answer that no other run gives.
    async fn charge(&self, order: Order) -> (StatusCode, String) {
        self.write(&order.name);
        let _run = Run(self, &order.name);
        sleep(self.work).await;
        let run = self.runs.fetch_add(1, Relaxed);
        (StatusCode::CREATED, format!("{} by {} as {run}", order.name, process::id()))
    }
}

#[idempotent(ttl = "1h", lease = "3s")]
async fn pay(State(ledger): State<Arc<Ledger>>, Json(order): Json<Order>) -> (StatusCode, String) {
    ledger.charge(order).await
}

#[idempotent(ttl = "1h", lease = "3s", unknown = hold)]
async fn pay_or_hold(State(ledger): State<Arc<Ledger>>, Json(order): Json<Order>) -> (StatusCode, String) {
    ledger.charge(order).await
}

#[idempotent(ttl = "1h", wait = "10s")]
async fn pay_or_wait(State(ledger): State<Arc<Ledger>>, Json(order): Json<Order>) -> (StatusCode, String) {
    ledger.charge(order).await
}

#[tokio::main]
async fn main() {
    let setting = |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let file = File::options().create(true).append(true).open(setting("LEDGER")).expect("open the ledger");
    let work = Duration::from_millis(setting("WORK_MS").parse().expect("milliseconds"));
    let app = App {
        idempotency: Idempotency::connect(&setting("IDEM_STORE")).await.expect("connect to the store"),
        ledger: Arc::new(Ledger { file, work, runs: AtomicU64::new(0) }),
    };
    let router = Router::new()
        .route("/pay", post(pay))
        .route("/hold", post(pay_or_hold))
        .route("/wait", post(pay_or_wait))
        .route("/ready", get(|| async {}))
        .with_state(app);
    let port = setting("PORT").parse().expect("a port");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("listen");
    axum::serve(listener, router).await.expect("serve");
}
