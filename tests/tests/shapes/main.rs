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
    h01_state_and_json: app(), "/", "/", json, 200;
    h02_arc_and_an_alias_of_result: shared(), "/", "/", json, 200;
    h03_alias_of_the_state: shared(), "/{id}", "/7", json, 201;
    h04_two_substates: app(), "/", "/", json, 204;
    h05_alias_of_the_extractor: app(), "/", "/", json, 200;
    h06_renamed_import: shared(), "/", "/", text, 200;
    h07_state_that_is_an_extractor: app(), "/", "/", json, 200;
    h08_ref_in_the_pattern: app(), "/", "/", json, 200;
    h09_nothing_destructured: app(), "/{id}", "/7", json, 200;
    h10_extension_as_state: app(), "/", "/", json, 200;
    h10_mut_in_the_pattern: app(), "/", "/", json, 200;
    h11_optional_identity: app(), "/", "/", json, 200;
    h12_tuple_of_the_path: app(), "/{shop}/{order}", "/1/2", empty, 202;
    h13_struct_of_the_path: app(), "/{shop}/{order}", "/1/2", json, 200;
    h14_query: app(), "/", "/?dry=true", json, 200;
    h15_headers_and_bytes: app(), "/", "/", text, 200;
    h16_headers_and_string: app(), "/", "/", text, 200;
    h17_signed_event: app(), "/", "/", json, 200;
    h18_everything_raw: app(), "/{kind}", "/kyc", text, 200;
    h19_typed_header: app(), "/", "/", json, 200;
    h19_optional_typed_header: app(), "/", "/", json, 200;
    h20_no_body: app(), "/", "/", empty, 200;
    h21_wildcard: app(), "/", "/", json, 200;
    h21_unused: app(), "/{id}", "/7", empty, 200;
    h22_rejection_as_a_value: app(), "/", "/", json, 200;
    h23_optional_body: app(), "/", "/", json, 200;
    h24_with_rejection: app(), "/", "/", json, 200;
    h25_cookies: app(), "/", "/", form, 303;
    h26_form: app(), "/", "/", form, 200;
    h27_multipart: app(), "/", "/", multipart, 200;
    h28_whole_request: app(), "/", "/", text, 200;
    h29_body: app(), "/", "/", text, 200;
    h30_no_arguments: app(), "/", "/", empty, 202;
    h30_nothing_at_all: app(), "/", "/", empty, 200;
    h31_static_text: app(), "/{id}", "/7", empty, 200;
    h32_error_tuple: app(), "/", "/", json, 201;
    h33_status_headers_body: app(), "/", "/", json, 201;
    h34_impl_in_a_result: app(), "/", "/", json, 201;
    h36_opaque_response: app(), "/", "/", empty, 200;
    h37_connect_info: app(), "/", "/", json, 200;
    h38_method_uri_route: app(), "/a42/{id}", "/a42/7", text, 200;
    h39_tuple_of_extractors: app(), "/", "/", json, 200;
    h40_sixteen_arguments: app(), "/", "/", text, 200;
    h41_static_reference: leaked(), "/", "/", json, 200;
    elided: leaked(), "/", "/", json, 200;
    h42_qualified: app(), "/", "/", json, 200;
    h43_mut_patterns: app(), "/", "/", json, 200;
    h46_trait_object: DynApp::new(), "/", "/", json, 200;
    h49_made_by_a_macro: app(), "/", "/", json, 200;
    h49_made_of_fragments: app(), "/", "/", json, 200;
    h50_debug_handler: app(), "/", "/", json, 200;
    h50_debug_handler_with_state: app(), "/", "/", json, 200;
    h51_instrument: app(), "/", "/", json, 200;
    h52_utoipa: app(), "/", "/", json, 201;
    h53_other_attributes: app(), "/", "/", empty, 200;
    h55_extension_in_the_response: app(), "/", "/", empty, 200;
    configured: app(), "/", "/", json, 200;
    configured_away: app(), "/", "/", empty, 200;
    every_option: app(), "/", "/", json, 200;
    keyed: app(), "/", "/", json, 200;
    assembled: app(), "/", "/", json, 200;
}

shapes! {
    h44_generic: "h44_generic", h::h44_generic::<App>, app(), "/", "/", json, 200;
    h44_where: "h44_where", h::h44_where::<App, Basket>, shared(), "/", "/", json, 200;
    h45_const_generic: "h45_const_generic", h::h45_const_generic::<64>, app(), "/", "/", text, 200;
    h48_associated: "Api::create", Api::create, app(), "/", "/", json, 200;
    h48_state_of_self: "Api::of_self", Api::of_self, Arc::new(Api::new()), "/", "/", json, 200;
    h48_body_names_self: "Api::calls_self", Api::calls_self, app(), "/", "/", json, 200;
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
async fn h54_called_by_another() {
    let router = Router::new().route("/", post(h::calls_direct)).route("/called", post(h::called)).with_state(app());
    once("calls_direct", router, || json("/"), 200).await;
    assert_eq!(runs("called"), 1);
}

/// What clippy says of an associated handler without the attribute, it says with it: `handlers.rs` expects both.
#[test]
fn an_associated_handler_has_the_lints_of_a_plain_one() {
    let router: Router<App> = Router::new().route("/", post(Api::not_annotated)).route("/self", post(Api::calls_self));
    drop(router);
}

/// The catalogue of shapes has 55, and the number of each begins a test's name here.
#[test]
fn every_shape_has_a_test() {
    // What can't be guarded, and the case that shows the one error.
    let refused = [
        (35, "signature/streams.rs"),
        (47, "signature/not_async_but_a_future.rs"),
        (47, "signature/not_async_but_boxed.rs"),
        (47, "signature/not_async_but_ready.rs"),
        (48, "signature/self_receiver.rs"),
    ];
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../ui");
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/ui");
    for (shape, case) in refused {
        let exists = [cases, here].iter().any(|folder| std::path::Path::new(folder).join(case).is_file());
        assert!(exists, "H{shape}: there is no {case}");
    }
    let source = include_str!("main.rs");
    for shape in 1..=55 {
        let (row, function) = (format!("\n    h{shape:02}_"), format!("\nasync fn h{shape:02}_"));
        let tested = source.contains(&row) || source.contains(&function);
        assert!(tested || refused.iter().any(|(refused, _)| *refused == shape), "H{shape:02} has no test");
    }
}
