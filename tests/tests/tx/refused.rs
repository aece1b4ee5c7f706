//! Handlers that can't have the transaction they ask for.

use axum::{Router, http::HeaderMap, routing::post};
use idem_runtime::{
    Idempotency, idempotent,
    store::{FaultStore, MemoryStore, PostgresStore, postgres::Tx},
};
use idem_tests::{
    postgres::pool,
    server::{Answer, Server},
};

use crate::{
    app::{database, refused, server},
    seen::Seen,
};

#[idempotent(ttl = "24h")]
async fn one(mut tx: Tx) -> String {
    sqlx::query("SELECT 1").execute(&mut *tx).await.unwrap();
    "ran".to_owned()
}

/// `Tx` by another name, which the attribute can't see.
type Transaction = Tx;

#[idempotent(ttl = "24h")]
async fn two(_: Tx, _: HeaderMap, _: Transaction) -> &'static str {
    "ran"
}

#[idempotent(ttl = "24h", unknown = hold)]
async fn held(_: Transaction) -> &'static str {
    "ran"
}

/// A type of the application's own by that name is none of the attribute's business.
mod own {
    pub(super) struct Tx;

    impl<S: Sync> axum::extract::FromRequestParts<S> for Tx {
        type Rejection = std::convert::Infallible;

        async fn from_request_parts(_: &mut http::request::Parts, _: &S) -> Result<Self, Self::Rejection> {
            Ok(Self)
        }
    }
}

#[idempotent(ttl = "24h", unknown = hold)]
async fn another(_: own::Tx, _: own::Tx) -> &'static str {
    "ran"
}

fn router(idempotency: Idempotency) -> Router {
    Router::new()
        .route("/one", post(one))
        .route("/two", post(two))
        .route("/held", post(held))
        .route("/another", post(another))
        .with_state(idempotency)
}

async fn check(server: &Server, seen: &Seen, path: &str, says: &str) {
    let events = seen.events().len();
    let answer = Answer::to(server.post(path, "k")).await;
    refused(&answer, 500, "idempotency_not_transactional", None);
    assert!(answer.text().contains(says), "{}", answer.text());
    let events = seen.events().split_off(events);
    assert!(events.iter().any(|event| event["level"] == "ERROR" && event["message"].contains(says)), "{events:?}");
}

#[tokio::test]
async fn a_store_without_transactions_says_so() {
    let seen = Seen::start();
    let service = Server::start(router(Idempotency::new(FaultStore::new(MemoryStore::new())))).await;
    check(&service, &seen, "/one", "the `memory` store has no transactions to share: use `PostgresStore`").await;
    assert_eq!(Answer::to(service.post("/another", "k")).await.text(), "ran");
}

#[tokio::test]
async fn a_second_transaction_and_hold_are_refused() {
    let Some(server) = server() else { return };
    let name = database(&server).await;
    let seen = Seen::start();
    let store = FaultStore::new(PostgresStore::new(pool(&server.url_of(&name), 2).await));
    let service = Server::start(router(Idempotency::new(store))).await;
    check(&service, &seen, "/two", "more than once").await;
    check(&service, &seen, "/held", "says `unknown = hold`").await;
    // The test's store hands the real one's transactions on.
    assert_eq!(Answer::to(service.post("/one", "k")).await.text(), "ran");
}

/// An unannotated handler has no transaction: its connection closes as after any panic.
#[tokio::test]
async fn outside_a_guarded_handler_there_is_no_transaction() {
    async fn plain(mut tx: Tx) -> &'static str {
        let _ = sqlx::query("SELECT 1").execute(&mut *tx).await;
        "ran"
    }
    let service = Server::start(Router::new().route("/plain", post(plain))).await;
    assert!(service.post("/plain", "k").send().await.is_err());
}
