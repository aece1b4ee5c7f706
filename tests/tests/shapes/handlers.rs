//! The shapes handlers have in the wild, each annotated; the numbers are those of their tests.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use axum::extract::State as AxumState;
use axum::{
    Form, Json,
    body::{Body, Bytes},
    extract::{
        ConnectInfo, Extension, FromRef, MatchedPath, Multipart, OriginalUri, Path, Query, Request, State,
        rejection::JsonRejection,
    },
    http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header, request::Parts},
    response::{Html, IntoResponse, Redirect, Response},
};
use axum_extra::{
    TypedHeader,
    extract::{WithRejection, cookie::CookieJar},
    headers::UserAgent,
};
use idem_runtime::{HasIdempotency, Idempotency, idempotent, store::MemoryStore};
use serde::{Deserialize, de::DeserializeOwned};

use crate::prelude::*;

#[idempotent(ttl = "24h")]
pub(crate) async fn h01_state_and_json(State(app): State<App>, Json(b): Json<Basket>) -> Result<Json<Receipt>, Oops> {
    ran("h01_state_and_json");
    Ok(Json(Receipt { no: u64::from(app.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h02_arc_and_an_alias_of_result(
    State(app): State<Arc<App>>,
    Json(b): Json<Basket>,
) -> Reply<Json<Receipt>> {
    ran("h02_arc_and_an_alias_of_result");
    Ok(Json(Receipt { no: u64::from(app.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h03_alias_of_the_state(
    State(app): State<Shared>,
    Path(id): Path<u64>,
    Json(b): Json<Basket>,
) -> impl IntoResponse {
    ran("h03_alias_of_the_state");
    (StatusCode::CREATED, Json(Receipt { no: id + u64::from(app.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h04_two_substates(
    State(till): State<Till>,
    State(app): State<App>,
    Json(b): Json<Basket>,
) -> Reply<StatusCode> {
    ran("h04_two_substates");
    drop((till, app, b));
    Ok(StatusCode::NO_CONTENT)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h05_alias_of_the_extractor(State(till): TillState, Json(b): Json<Basket>) -> Reply<StatusCode> {
    ran("h05_alias_of_the_extractor");
    drop((till, b));
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h06_renamed_import(AxumState(app): AxumState<Arc<App>>, body: Bytes) -> Reply<Response> {
    ran("h06_renamed_import");
    drop((app, body));
    Ok(StatusCode::OK.into_response())
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h07_state_that_is_an_extractor(
    ctx: Ctx,
    parts: Parts,
    Json(b): Json<Basket>,
) -> Reply<Json<Receipt>> {
    ran("h07_state_that_is_an_extractor");
    assert_eq!(parts.method, Method::POST);
    Ok(Json(Receipt { no: u64::from(ctx.0.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h08_ref_in_the_pattern(
    State(App { ref till, rate, .. }): State<App>,
    Checked(b): Checked<Basket>,
) -> Reply<Json<Receipt>> {
    ran("h08_ref_in_the_pattern");
    let _: &Till = till;
    Ok(Json(Receipt { no: u64::from(rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h09_nothing_destructured(
    state: State<App>,
    path: Path<u64>,
    payload: Json<Basket>,
) -> Reply<Json<Receipt>> {
    ran("h09_nothing_destructured");
    Ok(Json(Receipt { no: path.0 + u64::from(state.rate * payload.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h10_extension_as_state(
    Extension(app): Extension<Arc<App>>,
    Json(b): Json<Basket>,
) -> Json<Receipt> {
    ran("h10_extension_as_state");
    Json(Receipt { no: u64::from(app.rate * b.qty) })
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h10_mut_in_the_pattern(
    app: Extension<App>,
    Extension(who): Extension<Caller>,
    Json(mut b): Json<Basket>,
) -> Reply<Json<Receipt>> {
    ran("h10_mut_in_the_pattern");
    b.qty += app.rate;
    Ok(Json(Receipt { no: who.id + u64::from(b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h11_optional_identity(
    State(app): State<App>,
    who: Option<Extension<Caller>>,
    Json(b): Json<Basket>,
) -> Reply<Response> {
    ran("h11_optional_identity");
    drop((app, who, b));
    Ok(().into_response())
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h12_tuple_of_the_path(
    Path((shop, order)): Path<(u32, u64)>,
    State(app): State<App>,
) -> Reply<StatusCode> {
    ran("h12_tuple_of_the_path");
    assert_eq!((shop, order, app.rate), (1, 2, 3));
    Ok(StatusCode::ACCEPTED)
}

#[derive(Deserialize)]
pub(crate) struct At {
    #[allow(dead_code)]
    shop: u32,
    order: u64,
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h13_struct_of_the_path(
    Path(At { order, .. }): Path<At>,
    Shopper(me): Shopper,
    Checked(b): Checked<Basket>,
) -> Reply<Json<Receipt>> {
    ran("h13_struct_of_the_path");
    Ok(Json(Receipt { no: order + me + u64::from(b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h14_query(
    State(app): State<App>,
    Query(f): Query<Flags>,
    Json(b): Json<Basket>,
) -> Reply<Json<Receipt>> {
    ran("h14_query");
    assert_eq!(f.dry, Some(true));
    Ok(Json(Receipt { no: u64::from(app.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h15_headers_and_bytes(State(app): State<App>, headers: HeaderMap, body: Bytes) -> StatusCode {
    ran("h15_headers_and_bytes");
    assert!(headers.contains_key("idempotency-key"));
    drop((app, body));
    StatusCode::OK
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h16_headers_and_string(
    State(app): State<App>,
    headers: HeaderMap,
    body: String,
) -> Reply<&'static str> {
    ran("h16_headers_and_string");
    drop((app, headers, body));
    Ok("ok")
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h17_signed_event(SignedEvent(ev): SignedEvent) {
    ran("h17_signed_event");
    assert_eq!(ev["sku"], "tea");
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h18_everything_raw(
    Extension(app): Extension<App>,
    Path(kind): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    raw: Bytes,
) {
    ran("h18_everything_raw");
    drop((app, kind, headers, uri, raw));
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h19_typed_header(
    State(app): State<App>,
    TypedHeader(ua): TypedHeader<UserAgent>,
    Json(mut b): Json<Basket>,
) -> Reply<Json<Receipt>> {
    ran("h19_typed_header");
    b.qty += app.rate;
    assert_eq!(ua.as_str(), "shapes");
    Ok(Json(Receipt { no: u64::from(b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h19_optional_typed_header(
    ua: Option<TypedHeader<UserAgent>>,
    Json(b): Json<Basket>,
) -> Json<Receipt> {
    ran("h19_optional_typed_header");
    drop((ua, b));
    Json(Receipt { no: 1 })
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h20_no_body(who: Claims, State(app): State<App>) -> Reply<StatusCode> {
    ran("h20_no_body");
    assert_eq!(who.sub, 1);
    drop(app);
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h21_wildcard(_: Claims, State(_app): State<App>, Json(b): Json<Basket>) -> Reply<StatusCode> {
    ran("h21_wildcard");
    drop(b);
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h21_unused(_who: Claims, Path(id): Path<u64>) -> Reply<()> {
    ran("h21_unused");
    assert_eq!(id, 7);
    Ok(())
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h22_rejection_as_a_value(
    State(app): State<App>,
    body: Result<Json<Basket>, JsonRejection>,
) -> Response {
    ran("h22_rejection_as_a_value");
    drop((app, body));
    StatusCode::OK.into_response()
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h23_optional_body(
    State(app): State<App>,
    body: Option<Json<Basket>>,
) -> (StatusCode, Json<Receipt>) {
    ran("h23_optional_body");
    drop((app, body));
    (StatusCode::OK, Json(Receipt { no: 1 }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h24_with_rejection(
    WithRejection(Json(b), _): WithRejection<Json<Basket>, Oops>,
) -> impl IntoResponse {
    ran("h24_with_rejection");
    drop(b);
    StatusCode::OK
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h25_cookies(jar: CookieJar, Form(f): Form<Basket>) -> Result<(CookieJar, Redirect), Oops> {
    ran("h25_cookies");
    drop(f);
    Ok((jar, Redirect::to("/done")))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h26_form(State(app): State<App>, Form(f): Form<Basket>) -> Result<Html<String>, StatusCode> {
    ran("h26_form");
    drop((app, f));
    Ok(Html(String::from("<p>done</p>")))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h27_multipart(
    Shopper(me): Shopper,
    mut parts: Multipart,
) -> Result<Json<Receipt>, (StatusCode, String)> {
    ran("h27_multipart");
    while let Ok(Some(f)) = parts.next_field().await {
        let _ = f.bytes().await;
    }
    Ok(Json(Receipt { no: me }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h28_whole_request(State(app): State<App>, req: Request) -> Result<Response, Infallible> {
    ran("h28_whole_request");
    drop((app, req));
    Ok(StatusCode::OK.into_response())
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h29_body(State(app): State<App>, headers: HeaderMap, body: Body) -> Reply<StatusCode> {
    ran("h29_body");
    drop((app, headers, body));
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h30_no_arguments() -> StatusCode {
    ran("h30_no_arguments");
    StatusCode::ACCEPTED
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h30_nothing_at_all() {
    ran("h30_nothing_at_all");
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h31_static_text(Path(id): Path<u64>) -> &'static str {
    ran("h31_static_text");
    assert_eq!(id, 7);
    "gone"
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h32_error_tuple(
    State(app): State<App>,
    Json(v): Json<serde_json::Value>,
) -> Result<(StatusCode, Json<Receipt>), (StatusCode, Json<serde_json::Value>)> {
    ran("h32_error_tuple");
    drop((app, v));
    Ok((StatusCode::CREATED, Json(Receipt { no: 1 })))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h33_status_headers_body(
    State(app): State<App>,
    Json(b): Json<Basket>,
) -> Reply<(StatusCode, [(HeaderName, String); 1], Json<Receipt>)> {
    ran("h33_status_headers_body");
    drop((app, b));
    Ok((StatusCode::CREATED, [(header::LOCATION, "/r/1".into())], Json(Receipt { no: 1 })))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h34_impl_in_a_result(
    State(app): State<App>,
    Json(b): Json<Basket>,
) -> Result<impl IntoResponse, Oops> {
    ran("h34_impl_in_a_result");
    drop((app, b));
    Ok((StatusCode::CREATED, Json(Receipt { no: 1 })))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h36_opaque_response(State(app): State<App>) -> Response {
    ran("h36_opaque_response");
    drop(app);
    Body::from_stream(futures::stream::iter([Ok::<_, Infallible>("chunk")])).into_response()
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h37_connect_info(
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    State(app): State<App>,
    Json(b): Json<Basket>,
) -> axum::response::Result<Json<Receipt>> {
    ran("h37_connect_info");
    assert_eq!(from.port(), 9);
    Ok(Json(Receipt { no: u64::from(app.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h38_method_uri_route(
    method: Method,
    OriginalUri(uri): OriginalUri,
    mp: MatchedPath,
    body: Bytes,
) -> StatusCode {
    ran("h38_method_uri_route");
    assert_eq!((mp.as_str(), uri.path()), ("/a42/{id}", "/a42/7"));
    drop((method, body));
    StatusCode::OK
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h39_tuple_of_extractors(
    (State(app), Shopper(me)): (State<App>, Shopper),
    Json(b): Json<Basket>,
) -> StatusCode {
    ran("h39_tuple_of_extractors");
    assert_eq!(me, 1);
    drop((app, b));
    StatusCode::OK
}

#[allow(clippy::too_many_arguments)]
#[idempotent(ttl = "24h")]
pub(crate) async fn h40_sixteen_arguments(
    a: Method,
    b: Uri,
    c: HeaderMap,
    d: Method,
    e: Uri,
    f: HeaderMap,
    g: Method,
    h: Uri,
    i: HeaderMap,
    j: Method,
    k: Uri,
    l: HeaderMap,
    m: Method,
    n: Uri,
    o: HeaderMap,
    p: Bytes,
) -> StatusCode {
    ran("h40_sixteen_arguments");
    drop((a, b, c, d, e, f, g, h, (i, j, k, l, m, n, o, p)));
    StatusCode::OK
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h41_static_reference(
    State(s): State<&'static App>,
    Json(b): Json<Basket>,
) -> Result<&'static str, (StatusCode, &'static str)> {
    ran("h41_static_reference");
    assert_eq!((s.rate, b.qty), (3, 2));
    Ok("ok")
}

#[idempotent(ttl = "24h")]
pub(crate) async fn elided(State(s): State<&App>, Json(b): Json<Basket>) -> String {
    ran("elided");
    format!("{} x {}", s.rate, b.qty)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h42_qualified(
    axum::extract::State(app): axum::extract::State<App>,
    axum::Json(b): axum::Json<Basket>,
) -> axum::response::Response {
    ran("h42_qualified");
    drop((app, b));
    StatusCode::OK.into_response()
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h43_mut_patterns(
    State(mut app): State<App>,
    mut headers: HeaderMap,
    Json(Basket { sku, mut qty }): Json<Basket>,
) -> StatusCode {
    ran("h43_mut_patterns");
    qty += 1;
    app.rate += qty;
    headers.clear();
    drop(sku);
    StatusCode::OK
}

pub(crate) trait Ledger: Clone + Send + Sync + 'static {
    fn book(&self) -> impl std::future::Future<Output = u64> + Send;
}

impl Ledger for App {
    async fn book(&self) -> u64 {
        u64::from(self.rate)
    }
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h44_generic<L: Ledger>(State(l): State<L>, Json(b): Json<Basket>) -> Reply<Json<Receipt>> {
    ran("h44_generic");
    Ok(Json(Receipt { no: l.book().await + u64::from(b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h44_where<L, T>(State(l): State<Arc<L>>, Json(t): Json<T>) -> Result<StatusCode, Oops>
where
    L: Ledger,
    T: DeserializeOwned + Send,
{
    ran("h44_where");
    drop((l, t));
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h45_const_generic<const MAX: usize>(body: Bytes) -> StatusCode {
    ran("h45_const_generic");
    if body.len() > MAX { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::OK }
}

#[derive(Clone)]
pub(crate) struct DynApp {
    pub(crate) l: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub(crate) idempotency: Idempotency,
}

impl DynApp {
    pub(crate) fn new() -> Self {
        Self { l: Arc::new(|| 4), idempotency: Idempotency::new(MemoryStore::new()) }
    }
}

impl FromRef<DynApp> for Idempotency {
    fn from_ref(app: &DynApp) -> Self {
        app.idempotency.clone()
    }
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h46_trait_object(State(app): State<DynApp>, Json(b): Json<Basket>) -> Json<Receipt> {
    ran("h46_trait_object");
    Json(Receipt { no: (app.l)() + u64::from(b.qty) })
}

pub(crate) struct Api {
    idempotency: Idempotency,
    pub(crate) rate: u32,
}

impl Api {
    pub(crate) fn new() -> Self {
        Self { idempotency: Idempotency::new(MemoryStore::new()), rate: 3 }
    }

    /// clippy takes an associated function for unused as a value, annotated or not.
    #[expect(clippy::unused_async)]
    pub(crate) async fn not_annotated(State(_): State<App>) {}

    #[idempotent(ttl = "24h")]
    pub(crate) async fn create(State(app): State<App>, Json(b): Json<Basket>) -> Reply<StatusCode> {
        ran("Api::create");
        drop((app, b));
        Ok(StatusCode::OK)
    }

    #[idempotent(ttl = "24h")]
    #[expect(clippy::unused_async)]
    pub(crate) async fn of_self(State(this): State<Arc<Self>>, Json(b): Json<Basket>) -> Json<Receipt> {
        ran("Api::of_self");
        Json(Receipt { no: Self::total(this.rate, b.qty) })
    }

    /// The body names `Self`, the signature doesn't; `expect` is fulfilled where the body went.
    #[expect(unused_variables, clippy::unused_async)]
    #[idempotent(ttl = "24h")]
    pub(crate) async fn calls_self(State(app): State<App>, unused: Method, Json(b): Json<Basket>) -> Json<Receipt> {
        ran("Api::calls_self");
        Json(Receipt { no: Self::total(app.rate, b.qty) })
    }

    #[idempotent(ttl = "24h", inner = Self::named_unguarded)]
    #[expect(clippy::unused_async)]
    pub(crate) async fn named(State(app): State<App>, Json(b): Json<Basket>) -> Json<Receipt> {
        ran("Api::named");
        Json(Receipt { no: Self::total(app.rate, b.qty) })
    }

    fn total(rate: u32, qty: u32) -> u64 {
        u64::from(rate * qty)
    }
}

impl HasIdempotency for Api {
    fn idempotency(&self) -> &Idempotency {
        &self.idempotency
    }
}

pub(crate) struct Shop<L>(L);

impl<L: Ledger> Shop<L> {
    /// A nested function couldn't name the `impl`'s parameter.
    #[idempotent(ttl = "24h", inner = Self::book_unguarded)]
    pub(crate) async fn book(State(l): State<L>, Json(b): Json<Basket>) -> Json<Receipt> {
        ran("Shop::book");
        let shop = Self(l);
        Json(Receipt { no: shop.0.book().await + u64::from(b.qty) })
    }
}

macro_rules! make {
    ($name:ident, $body:ty) => {
        #[idempotent(ttl = "24h", scope = (b.sku, app.rate))]
        pub(crate) async fn $name(State(app): State<App>, Json(b): Json<$body>) -> Reply<Json<Receipt>> {
            ran(stringify!($name));
            Ok(Json(Receipt { no: u64::from(app.rate * b.qty) }))
        }
    };
    ($(#[$outer:meta])* $vis:vis async fn $name:ident($($pat:pat => $ty:ty),*) -> $ret:ty $body:block) => {
        #[idempotent(ttl = "24h")]
        $(#[$outer])*
        $vis async fn $name($($pat: $ty),*) -> $ret $body
    };
}
make!(h49_made_by_a_macro, Basket);
make! {
    /// Its tokens come through a macro's fragments.
    #[allow(clippy::needless_pass_by_value)]
    pub(crate) async fn h49_made_of_fragments(State(app) => State<App>, Json(b) => Json<Basket>) -> Json<Receipt> {
        ran("h49_made_of_fragments");
        Json(Receipt { no: u64::from(app.rate * b.qty) })
    }
}

#[axum::debug_handler]
#[idempotent(ttl = "24h")]
pub(crate) async fn h50_debug_handler(State(app): State<App>, Json(b): Json<Basket>) -> Reply<StatusCode> {
    ran("h50_debug_handler");
    // The copy that `debug_handler` makes is called by nobody, annotated or not.
    std::future::ready(()).await;
    drop((app, b));
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
#[axum::debug_handler(state = App)]
pub(crate) async fn h50_debug_handler_with_state(
    State(till): State<Till>,
    State(app): State<App>,
    Json(b): Json<Basket>,
) -> Reply<StatusCode> {
    ran("h50_debug_handler_with_state");
    // The copy that `debug_handler` makes is called by nobody, annotated or not.
    std::future::ready(()).await;
    drop((till, app, b));
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
#[tracing::instrument(skip_all, err(Debug), fields(sku = %b.sku))]
pub(crate) async fn h51_instrument(State(app): State<App>, Json(b): Json<Basket>) -> Reply<StatusCode> {
    ran("h51_instrument");
    drop((app, b));
    Ok(StatusCode::OK)
}

/// Books a basket.
#[utoipa::path(post, path = "/", responses((status = 201)))]
#[tracing::instrument(skip_all)]
#[idempotent(ttl = "24h")]
pub(crate) async fn h52_utoipa(State(app): State<App>, Json(b): Json<serde_json::Value>) -> StatusCode {
    ran("h52_utoipa");
    drop((app, b));
    StatusCode::CREATED
}

#[cfg_attr(debug_assertions, axum::debug_handler)]
#[allow(clippy::too_many_arguments)]
#[deprecated]
#[idempotent(ttl = "24h")]
pub(crate) async fn h53_other_attributes(State(app): State<App>) -> Reply<StatusCode> {
    ran("h53_other_attributes");
    std::future::ready(()).await;
    drop(app);
    Ok(StatusCode::OK)
}

/// A caller of an annotated handler calls it as written.
#[idempotent(ttl = "24h", inner = called_unguarded)]
pub(crate) async fn called(state: State<App>, body: Json<Basket>) -> Reply<Json<Receipt>> {
    ran("called");
    Ok(Json(Receipt { no: u64::from(state.rate * body.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn calls_direct(state: State<App>, body: Json<Basket>) -> Reply<Json<Receipt>> {
    ran("calls_direct");
    called_unguarded(state, body).await
}

#[idempotent(ttl = "24h")]
pub(crate) async fn h55_extension_in_the_response(State(app): State<App>) -> (Extension<Caller>, Response) {
    ran("h55_extension_in_the_response");
    (Extension(Caller { id: u64::from(app.rate) }), StatusCode::OK.into_response())
}

/// Which parameter is the last depends on the configuration.
#[idempotent(ttl = "24h", scope = b.sku)]
pub(crate) async fn configured(
    State(app): State<App>,
    Json(b): Json<Basket>,
    #[cfg(any())] gone: Bytes,
) -> Json<Receipt> {
    ran("configured");
    Json(Receipt { no: u64::from(app.rate * b.qty) })
}

#[idempotent(ttl = "24h")]
pub(crate) async fn configured_away(
    #[cfg(not(doc))] method: Method,
    #[cfg(any())] State(app): State<App>,
    #[cfg(any())] Json(b): Json<Basket>,
) -> StatusCode {
    ran("configured_away");
    drop(method);
    StatusCode::OK
}

#[idempotent(ttl = "24h")]
pub(crate) async fn r#move(r#in: State<App>, Json(r#type): Json<Basket>) -> Json<Receipt> {
    ran("move");
    Json(Receipt { no: u64::from(r#in.rate * r#type.qty) })
}

#[idempotent(ttl = "24h", store = layer)]
pub(crate) async fn layered(State(rate): State<u32>, Json(b): Json<Basket>) -> Json<Receipt> {
    ran("layered");
    Json(Receipt { no: u64::from(rate * b.qty) })
}

#[idempotent(
    ttl = "24h",
    header = "X-Request-Id",
    optional,
    wait = "1s",
    lease = "5s",
    fingerprint(skip("/qty")),
    record = success,
    unknown = hold,
    outage = run,
    max_response = "64KiB",
    operation = "shapes.every_option",
    scope = (b.sku, app.rate),
    state = App,
    crate = ::idem_runtime
)]
pub(crate) async fn every_option(State(app): State<App>, Json(b): Json<Basket>) -> Json<Receipt> {
    ran("every_option");
    Json(Receipt { no: u64::from(app.rate * b.qty) })
}

#[idempotent(ttl = "24h", key = b.sku)]
pub(crate) async fn keyed(State(app): State<App>, Json(b): Json<Basket>) -> Json<Receipt> {
    ran("keyed");
    Json(Receipt { no: u64::from(app.rate * b.qty) })
}

/// The wrapper extracts for itself.
#[idempotent(ttl = "24h", state = App, scope = me)]
pub(crate) async fn assembled(
    State(till): State<Till>,
    Shopper(me): Shopper,
    mut headers: HeaderMap,
    Checked(Basket { sku, qty }): Checked<Basket>,
) -> Reply<Json<Receipt>> {
    ran("assembled");
    headers.clear();
    drop((till, sku));
    Ok(Json(Receipt { no: me + u64::from(qty) }))
}
