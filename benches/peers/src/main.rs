//! The same handler behind other libraries: `idem-peers [REDIS_URL]`. Built with `--ignore-rust-version`: one of them
//! asks for a newer compiler than it needs.

use std::sync::Arc;

use axum::{Json, Router, routing::post};
use axum_idempotent::{IdempotentLayer, IdempotentOptions};
use idempotent::{memory::MemoryStore, middleware::IdempotencyLayer, valkey::ValkeyStore};
use ruts::{
    CookieOptions, Session, SessionLayer,
    store::{Ttl, moka::MokaStore},
};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tower_cookies::CookieManagerLayer;

#[derive(Serialize, Deserialize)]
struct Order {
    account: String,
    amount: u64,
    currency: String,
    reference: String,
}

async fn handler(Json(order): Json<Order>) -> Json<Order> {
    Json(order)
}

/// Whoever has no session gets no idempotency from `axum-idempotent`.
async fn log_in(session: Session<MokaStore>) {
    session.set("user", &String::from("someone"), Ttl::new(3600).unwrap(), None).await.unwrap();
}

#[tokio::main]
async fn main() {
    let memory = IdempotencyLayer::new(MemoryStore::builder().try_build().unwrap());
    let sessions = Arc::new(MokaStore::builder().build());
    let options =
        IdempotentOptions::default().use_idempotency_key_header(Some("Idempotency-Key"), true).expire_after(3600);
    let with_sessions = Router::new()
        .route("/guarded", post(handler).layer(IdempotentLayer::<MokaStore>::new(options)))
        .route("/login", post(log_in))
        .layer(
            SessionLayer::new(sessions)
                .with_cookie_options(CookieOptions::build().name("session").max_age(3600).path("/")),
        )
        .layer(CookieManagerLayer::new());
    let mut router = Router::new()
        .route("/bare", post(handler))
        .route("/idempotent/guarded", post(handler).layer(memory.clone()))
        .route("/idempotent/optional", post(handler).layer(memory))
        .nest("/axum-idempotent", with_sessions);
    if let Some(url) = std::env::args().nth(1) {
        let store = ValkeyStore::with_url(url).try_build().await.unwrap();
        router = router.route("/idempotent-redis/guarded", post(handler).layer(IdempotencyLayer::new(store)));
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    axum::serve(listener, router).await.unwrap();
}
