//! Every shape of handler compiles with the attribute, answers as without it, and is guarded.

#![deny(warnings, clippy::pedantic, clippy::nursery)]
// What the shapes themselves do, annotated or not.
#![allow(deprecated, unused_qualifications, clippy::many_single_char_names, clippy::redundant_pub_crate)]
// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod handlers;
mod prelude;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Extension, Request},
    http::{StatusCode, header},
    response::Response,
    routing::post,
};
use handlers::{self as h, Api, DynApp, Shop};
use http_body_util::BodyExt;
use idem_runtime::{Idempotency, store::MemoryStore};
use prelude::{App, Basket, Caller, runs};
use tower::ServiceExt;

const BASKET: &str = r#"{"sku":"tea","qty":2}"#;

/// A request with everything that some handler asks for.
fn request(path: &str, content_type: &str, body: &str) -> Request {
    let from: SocketAddr = ([127, 0, 0, 1], 9).into();
    Request::post(path)
        .header("idempotency-key", "\"k1\"")
        .header("x-request-id", "k1")
        .header(header::CONTENT_TYPE, content_type)
        .header(header::USER_AGENT, "shapes")
        .extension(ConnectInfo(from))
        .extension(Arc::new(App::new()))
        .extension(App::new())
        .extension(Caller { id: 1 })
        .body(Body::from(body.to_owned()))
        .unwrap()
}

async fn answer(router: &Router, request: Request) -> (StatusCode, bool, Bytes) {
    let response: Response = router.clone().oneshot(request).await.unwrap();
    let replayed = response.headers().contains_key("idempotent-replayed");
    (response.status(), replayed, response.into_body().collect().await.unwrap().to_bytes())
}

/// Sends the request twice: the same answer, one run.
async fn once(handler: &str, router: Router, build: impl Fn() -> Request, status: u16) {
    let (first, replayed, body) = answer(&router, build()).await;
    assert_eq!((first.as_u16(), replayed), (status, false), "{handler}: {}", String::from_utf8_lossy(&body));
    assert_eq!(runs(handler), 1, "{handler} didn't run");
    let (second, replayed, again) = answer(&router, build()).await;
    assert_eq!((second, replayed, again), (first, true, body), "{handler}");
    assert_eq!(runs(handler), 1, "{handler} ran twice");
}

/// One test per shape, named after its handler: route, content type, body, status.
macro_rules! shapes {
    ($($name:ident: $counted:literal, $handler:expr, $state:expr, $route:literal, $path:literal, $kind:ident, $status:literal;)*) => {
        $(#[tokio::test]
        async fn $name() {
            let router = Router::new().route($route, post($handler)).with_state($state);
            once($counted, router, || $kind($path), $status).await;
        })*
    };
    ($($name:ident: $state:expr, $route:literal, $path:literal, $kind:ident, $status:literal;)*) => {
        $(#[tokio::test]
        async fn $name() {
            let router = Router::new().route($route, post(h::$name)).with_state($state);
            once(stringify!($name), router, || $kind($path), $status).await;
        })*
    };
}

fn json(path: &str) -> Request {
    request(path, "application/json", BASKET)
}

fn empty(path: &str) -> Request {
    request(path, "text/plain", "")
}

fn text(path: &str) -> Request {
    request(path, "text/plain", "some text")
}

fn form(path: &str) -> Request {
    request(path, "application/x-www-form-urlencoded", "sku=tea&qty=2")
}

fn multipart(path: &str) -> Request {
    let body = "--x\r\nContent-Disposition: form-data; name=\"sku\"\r\n\r\ntea\r\n--x--\r\n";
    request(path, "multipart/form-data; boundary=x", body)
}

fn app() -> App {
    App::new()
}

fn shared() -> Arc<App> {
    Arc::new(App::new())
}

fn leaked() -> &'static App {
    Box::leak(Box::new(App::new()))
}

shapes! {
    a01: app(), "/", "/", json, 200;
    a02: shared(), "/", "/", json, 200;
    a03: shared(), "/{id}", "/7", json, 201;
    a04: app(), "/", "/", json, 204;
    a05: app(), "/", "/", json, 200;
    a06: shared(), "/", "/", text, 200;
    a07: app(), "/", "/", json, 200;
    a08: app(), "/", "/", json, 200;
    a09: app(), "/{id}", "/7", json, 200;
    a10: app(), "/", "/", json, 200;
    a11: app(), "/", "/", json, 200;
    a12: app(), "/", "/", json, 200;
    a13: app(), "/{shop}/{order}", "/1/2", empty, 202;
    a14: app(), "/{shop}/{order}", "/1/2", json, 200;
    a15: app(), "/", "/?dry=true", json, 200;
    a16: app(), "/", "/", text, 200;
    a17: app(), "/", "/", text, 200;
    a18: app(), "/", "/", json, 200;
    a19: app(), "/{kind}", "/kyc", text, 200;
    a20: app(), "/", "/", json, 200;
    a21: app(), "/", "/", json, 200;
    a22: app(), "/", "/", empty, 200;
    a23: app(), "/", "/", json, 200;
    a24: app(), "/{id}", "/7", empty, 200;
    a25: app(), "/", "/", json, 200;
    a26: app(), "/", "/", json, 200;
    a27: app(), "/", "/", json, 200;
    a28: app(), "/", "/", form, 303;
    a29: app(), "/", "/", form, 200;
    a30: app(), "/", "/", multipart, 200;
    a31: app(), "/", "/", text, 200;
    a32: app(), "/", "/", text, 200;
    a33: app(), "/", "/", empty, 202;
    a34: app(), "/", "/", empty, 200;
    a35: app(), "/{id}", "/7", empty, 200;
    a36: app(), "/", "/", json, 201;
    a37: app(), "/", "/", json, 201;
    a38: app(), "/", "/", json, 201;
    a40: app(), "/", "/", empty, 200;
    a41: app(), "/", "/", json, 200;
    a42: app(), "/a42/{id}", "/a42/7", text, 200;
    a43: app(), "/", "/", json, 200;
    sixteen: app(), "/", "/", text, 200;
    borrowed: leaked(), "/", "/", json, 200;
    elided: leaked(), "/", "/", json, 200;
    qualified: app(), "/", "/", json, 200;
    mutable: app(), "/", "/", json, 200;
    trait_object: DynApp::new(), "/", "/", json, 200;
    made: app(), "/", "/", json, 200;
    made_whole: app(), "/", "/", json, 200;
    dressed: app(), "/", "/", empty, 200;
    with_extension: app(), "/", "/", empty, 200;
    configured: app(), "/", "/", json, 200;
    configured_away: app(), "/", "/", empty, 200;
    every_option: app(), "/", "/", json, 200;
    keyed: app(), "/", "/", json, 200;
    assembled: app(), "/", "/", json, 200;
}

shapes! {
    generic: "generic", h::generic::<App>, app(), "/", "/", json, 200;
    generic_where: "generic_where", h::generic_where::<App, Basket>, shared(), "/", "/", json, 200;
    const_generic: "const_generic", h::const_generic::<64>, app(), "/", "/", text, 200;
    associated: "Api::create", Api::create, app(), "/", "/", json, 200;
    associated_state: "Api::of_self", Api::of_self, Arc::new(Api::new()), "/", "/", json, 200;
    associated_body: "Api::calls_self", Api::calls_self, app(), "/", "/", json, 200;
    associated_named: "Api::named", Api::named, app(), "/", "/", json, 200;
    associated_generic: "Shop::book", Shop::<App>::book, app(), "/", "/", json, 200;
    raw_identifiers: "move", h::r#move, app(), "/", "/", json, 200;
}

/// Without a state the handle comes from a layer.
#[tokio::test]
async fn layered() {
    let layer = Extension(Idempotency::new(MemoryStore::new()));
    let router = Router::new().route("/", post(h::layered)).layer(layer).with_state(3);
    once("layered", router, || json("/"), 200).await;
}

/// A handler that is called by another one, as written: the guard is the caller's.
#[tokio::test]
async fn called_by_another() {
    let router = Router::new().route("/", post(h::calls_direct)).route("/called", post(h::called)).with_state(app());
    once("calls_direct", router, || json("/"), 200).await;
    assert_eq!(runs("called"), 1);
}
