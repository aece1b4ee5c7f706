//! The form, and what it orders.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Form, Router,
    extract::{FromRef, Path, State},
    response::{Html, Redirect},
    routing::{get, post},
};
use idem_runtime::{Idempotency, idempotent};
use serde::Deserialize;
use uuid::Uuid;

#[derive(Clone, FromRef)]
pub(crate) struct Shop {
    idempotency: Idempotency,
    orders: Orders,
}

impl Shop {
    pub(crate) fn new(idempotency: Idempotency) -> Self {
        Self { idempotency, orders: Orders::default() }
    }
}

/// What was really ordered.
#[derive(Clone, Default)]
pub(crate) struct Orders(Arc<Mutex<Vec<String>>>);

impl Orders {
    fn place(&self, item: String) -> usize {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        orders.push(item);
        orders.len()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// One key for each form that is shown: whatever happens to the page, its submissions are one order.
async fn page() -> Html<String> {
    let key = Uuid::new_v4();
    Html(format!(
        "<!doctype html><title>Order</title>\
         <form method=post action=/orders>\
         <input type=hidden name=idempotency_key value={key}>\
         <input name=item value=coffee><button id=order>Order</button></form>"
    ))
}

#[derive(Deserialize)]
struct Order {
    idempotency_key: String,
    item: String,
}

/// A second click waits for the first one's answer and follows the same redirect.
#[idempotent(ttl = "24h", wait = "10s", key = form.idempotency_key)]
async fn order(State(orders): State<Orders>, Form(form): Form<Order>) -> Redirect {
    // A payment would take its time here, and people click again.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let number = orders.place(form.item);
    // Post, redirect, get: reloading the page that follows sends nothing.
    Redirect::to(&format!("/orders/{number}"))
}

async fn show(State(orders): State<Orders>, Path(number): Path<usize>) -> Html<String> {
    Html(format!("<!doctype html><title>Order {number}</title><p id=orders>{} ordered", orders.count()))
}

pub(crate) fn router(shop: Shop) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/orders", post(order))
        .route("/orders/{number}", get(show))
        .with_state(shop)
}
