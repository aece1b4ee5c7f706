//! What else stands around handlers: spans, macros that make handlers, `async_trait`.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use idem_runtime::idempotent;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::{
    is_guarded,
    orders::{App, Order, next},
};

#[idempotent(ttl = "24h")]
#[tracing::instrument(skip(app), fields(amount = order.amount))]
async fn spanned(State(app): State<App>, Json(order): Json<Order>) -> (StatusCode, String) {
    drop(app);
    (StatusCode::CREATED, format!("{} {}", order.id, next()))
}

/// Keeps the name and fields of each span.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = span.metadata().name().to_owned();
        span.record(&mut Fields(&mut text));
        self.0.lock().unwrap().push(text);
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The span has the handler's name and the fields its author asked for, and a replay doesn't enter it.
#[tokio::test]
async fn instrument_sees_the_handler_as_written() {
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let router = Router::new().route("/", post(spanned)).with_state(App::new());
    is_guarded(&router, "/").await;
    let seen = spans.0.lock().unwrap();
    let ours: Vec<_> = seen.iter().filter(|span| span.starts_with("spanned")).collect();
    assert_eq!(ours.len(), 1, "{seen:?}");
    assert!(ours[0].contains("amount=5") && !ours[0].contains("app="), "{ours:?}");
}

/// `async_trait` on a trait beside a handler, which delegates to it.
#[async_trait::async_trait]
trait Orders: Send + Sync {
    async fn create(&self, order: Order) -> String;
}

#[async_trait::async_trait]
impl Orders for App {
    async fn create(&self, order: Order) -> String {
        format!("{} {}", order.id, next())
    }
}

#[idempotent(ttl = "24h")]
async fn delegates(State(app): State<App>, Json(order): Json<Order>) -> (StatusCode, String) {
    (StatusCode::CREATED, app.create(order).await)
}

#[tokio::test]
async fn a_handler_may_call_an_async_trait() {
    let router = Router::new().route("/", post(delegates)).with_state(App::new());
    is_guarded(&router, "/").await;
}

macro_rules! handlers {
    ($($(#[$attribute:meta])* $name:ident($order:ident: $payload:ty) => $answer:expr;)*) => {
        $(
            #[idempotent(ttl = "24h", scope = ($order.id, $order.amount))]
            $(#[$attribute])*
            async fn $name(State(_): State<App>, Json($order): Json<$payload>) -> (StatusCode, String) {
                (StatusCode::CREATED, $answer)
            }
        )*
    };
}

handlers! {
    plain(order: Order) => format!("{} {}", order.id, next());
    #[axum::debug_handler]
    #[tracing::instrument(skip_all, fields(id = "some"))]
    dressed(given: Order) => format!("{} {}", given.id, next());
}

#[tokio::test]
async fn handlers_made_by_a_macro_are_guarded() {
    let router = Router::new().route("/plain", post(plain)).route("/dressed", post(dressed)).with_state(App::new());
    is_guarded(&router, "/plain").await;
    is_guarded(&router, "/dressed").await;
}
