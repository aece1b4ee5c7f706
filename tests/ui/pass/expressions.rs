// Every form of expression that is accepted.
#![deny(warnings)]

use axum::{Json, Router, extract::State, routing::post};
use idem_runtime::{HasIdempotency, Idempotency, idempotent};

#[derive(Clone)]
struct App {
    idempotency: Idempotency,
    name: String,
}

impl HasIdempotency for App {
    fn idempotency(&self) -> &Idempotency {
        &self.idempotency
    }
}

#[derive(Debug, serde::Deserialize)]
struct Order {
    id: String,
    maybe: Option<String>,
    amount: u64,
}

fn tenant(order: &Order) -> String {
    order.id.clone()
}

const SHARED: &str = "shared";

#[idempotent(ttl = "24h", scope = "public")]
async fn literal(State(_): State<App>) {}

#[idempotent(ttl = "24h", scope = ("public", 1))]
async fn literals(State(_app): State<App>) {}

#[idempotent(ttl = "24h", scope = app.name, key = order.id)]
async fn fields(State(app): State<App>, Json(order): Json<Order>) {
    let _ = (app.idempotency, order.amount);
}

#[idempotent(ttl = "24h", scope = (app.name, (order.id, order.amount)), key = (order.id))]
async fn tuples(State(app): State<App>, Json(order): Json<Order>) {}

#[idempotent(ttl = "24h", scope = format!("{}-{}", app.name, order.id), key = format!("{order:?}"))]
async fn formats(State(app): State<App>, Json(order): Json<Order>) {}

#[idempotent(ttl = "24h", scope = tenant(order), key = order.maybe)]
async fn calls(State(_app): State<App>, Json(order): Json<Order>) {}

#[idempotent(ttl = "24h", scope = app.name.split('-').next(), key = order.maybe.as_deref().unwrap_or(SHARED))]
async fn methods(State(app): State<App>, Json(order): Json<Order>) {}

#[idempotent(ttl = "24h", scope = match amount { 0 => "nothing", _ => "something" }, key = if *amount > 1 { id } else { name })]
async fn patterns(
    State(App { ref name, .. }): State<App>,
    Json(Order { id, mut amount, .. }): Json<Order>,
) {
    amount += 1;
    let _ = (name, id, amount);
}

#[idempotent(ttl = "24h", scope = { let shop = &name[..1]; shop.to_owned() }, key = [1_u8, 2, *amount as u8])]
async fn references(State(App { name, .. }): State<&'static App>, Json(Order { amount, .. }): Json<Order>) {
    let _ = (name, amount);
}

#[idempotent(ttl = "24h", scope = _order.0.id, key = app.0.name)]
async fn whole(app: State<App>, _order: Json<Order>) {
    let _ = app;
}

#[idempotent(ttl = "24h", scope = name, key = <String as Clone>::clone(r#type))]
async fn raw(State(App { name, .. }): State<App>, Json(Order { id: r#type, .. }): Json<Order>) {
    let _ = (name, r#type);
}

fn main() {
    let _: Router<App> = Router::new()
        .route("/a", post(literal))
        .route("/b", post(literals))
        .route("/c", post(fields))
        .route("/d", post(tuples))
        .route("/e", post(formats))
        .route("/f", post(calls))
        .route("/g", post(methods))
        .route("/h", post(patterns))
        .route("/j", post(whole))
        .route("/k", post(raw));
    let _: Router<&'static App> = Router::new().route("/i", post(references));
}
