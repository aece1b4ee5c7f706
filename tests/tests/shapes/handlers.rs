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
pub(crate) async fn a01(State(app): State<App>, Json(b): Json<Basket>) -> Result<Json<Receipt>, Oops> {
    ran("a01");
    Ok(Json(Receipt { no: u64::from(app.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a02(State(app): State<Arc<App>>, Json(b): Json<Basket>) -> Reply<Json<Receipt>> {
    ran("a02");
    Ok(Json(Receipt { no: u64::from(app.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a03(State(app): State<Shared>, Path(id): Path<u64>, Json(b): Json<Basket>) -> impl IntoResponse {
    ran("a03");
    (StatusCode::CREATED, Json(Receipt { no: id + u64::from(app.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a04(State(till): State<Till>, State(app): State<App>, Json(b): Json<Basket>) -> Reply<StatusCode> {
    ran("a04");
    drop((till, app, b));
    Ok(StatusCode::NO_CONTENT)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a05(State(till): TillState, Json(b): Json<Basket>) -> Reply<StatusCode> {
    ran("a05");
    drop((till, b));
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a06(AxumState(app): AxumState<Arc<App>>, body: Bytes) -> Reply<Response> {
    ran("a06");
    drop((app, body));
    Ok(StatusCode::OK.into_response())
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a07(ctx: Ctx, parts: Parts, Json(b): Json<Basket>) -> Reply<Json<Receipt>> {
    ran("a07");
    assert_eq!(parts.method, Method::POST);
    Ok(Json(Receipt { no: u64::from(ctx.0.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a08(
    State(App { ref till, rate, .. }): State<App>,
    Checked(b): Checked<Basket>,
) -> Reply<Json<Receipt>> {
    ran("a08");
    let _: &Till = till;
    Ok(Json(Receipt { no: u64::from(rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a09(state: State<App>, path: Path<u64>, payload: Json<Basket>) -> Reply<Json<Receipt>> {
    ran("a09");
    Ok(Json(Receipt { no: path.0 + u64::from(state.rate * payload.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a10(Extension(app): Extension<Arc<App>>, Json(b): Json<Basket>) -> Json<Receipt> {
    ran("a10");
    Json(Receipt { no: u64::from(app.rate * b.qty) })
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a11(
    app: Extension<App>,
    Extension(who): Extension<Caller>,
    Json(mut b): Json<Basket>,
) -> Reply<Json<Receipt>> {
    ran("a11");
    b.qty += app.rate;
    Ok(Json(Receipt { no: who.id + u64::from(b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a12(
    State(app): State<App>,
    who: Option<Extension<Caller>>,
    Json(b): Json<Basket>,
) -> Reply<Response> {
    ran("a12");
    drop((app, who, b));
    Ok(().into_response())
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a13(Path((shop, order)): Path<(u32, u64)>, State(app): State<App>) -> Reply<StatusCode> {
    ran("a13");
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
pub(crate) async fn a14(
    Path(At { order, .. }): Path<At>,
    Shopper(me): Shopper,
    Checked(b): Checked<Basket>,
) -> Reply<Json<Receipt>> {
    ran("a14");
    Ok(Json(Receipt { no: order + me + u64::from(b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a15(State(app): State<App>, Query(f): Query<Flags>, Json(b): Json<Basket>) -> Reply<Json<Receipt>> {
    ran("a15");
    assert_eq!(f.dry, Some(true));
    Ok(Json(Receipt { no: u64::from(app.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a16(State(app): State<App>, headers: HeaderMap, body: Bytes) -> StatusCode {
    ran("a16");
    assert!(headers.contains_key("idempotency-key"));
    drop((app, body));
    StatusCode::OK
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a17(State(app): State<App>, headers: HeaderMap, body: String) -> Reply<&'static str> {
    ran("a17");
    drop((app, headers, body));
    Ok("ok")
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a18(SignedEvent(ev): SignedEvent) {
    ran("a18");
    assert_eq!(ev["sku"], "tea");
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a19(
    Extension(app): Extension<App>,
    Path(kind): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    raw: Bytes,
) {
    ran("a19");
    drop((app, kind, headers, uri, raw));
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a20(
    State(app): State<App>,
    TypedHeader(ua): TypedHeader<UserAgent>,
    Json(mut b): Json<Basket>,
) -> Reply<Json<Receipt>> {
    ran("a20");
    b.qty += app.rate;
    assert_eq!(ua.as_str(), "shapes");
    Ok(Json(Receipt { no: u64::from(b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a21(ua: Option<TypedHeader<UserAgent>>, Json(b): Json<Basket>) -> Json<Receipt> {
    ran("a21");
    drop((ua, b));
    Json(Receipt { no: 1 })
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a22(who: Claims, State(app): State<App>) -> Reply<StatusCode> {
    ran("a22");
    assert_eq!(who.sub, 1);
    drop(app);
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a23(_: Claims, State(_app): State<App>, Json(b): Json<Basket>) -> Reply<StatusCode> {
    ran("a23");
    drop(b);
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a24(_who: Claims, Path(id): Path<u64>) -> Reply<()> {
    ran("a24");
    assert_eq!(id, 7);
    Ok(())
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a25(State(app): State<App>, body: Result<Json<Basket>, JsonRejection>) -> Response {
    ran("a25");
    drop((app, body));
    StatusCode::OK.into_response()
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a26(State(app): State<App>, body: Option<Json<Basket>>) -> (StatusCode, Json<Receipt>) {
    ran("a26");
    drop((app, body));
    (StatusCode::OK, Json(Receipt { no: 1 }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a27(WithRejection(Json(b), _): WithRejection<Json<Basket>, Oops>) -> impl IntoResponse {
    ran("a27");
    drop(b);
    StatusCode::OK
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a28(jar: CookieJar, Form(f): Form<Basket>) -> Result<(CookieJar, Redirect), Oops> {
    ran("a28");
    drop(f);
    Ok((jar, Redirect::to("/done")))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a29(State(app): State<App>, Form(f): Form<Basket>) -> Result<Html<String>, StatusCode> {
    ran("a29");
    drop((app, f));
    Ok(Html(String::from("<p>done</p>")))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a30(Shopper(me): Shopper, mut parts: Multipart) -> Result<Json<Receipt>, (StatusCode, String)> {
    ran("a30");
    while let Ok(Some(f)) = parts.next_field().await {
        let _ = f.bytes().await;
    }
    Ok(Json(Receipt { no: me }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a31(State(app): State<App>, req: Request) -> Result<Response, Infallible> {
    ran("a31");
    drop((app, req));
    Ok(StatusCode::OK.into_response())
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a32(State(app): State<App>, headers: HeaderMap, body: Body) -> Reply<StatusCode> {
    ran("a32");
    drop((app, headers, body));
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a33() -> StatusCode {
    ran("a33");
    StatusCode::ACCEPTED
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a34() {
    ran("a34");
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a35(Path(id): Path<u64>) -> &'static str {
    ran("a35");
    assert_eq!(id, 7);
    "gone"
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a36(
    State(app): State<App>,
    Json(v): Json<serde_json::Value>,
) -> Result<(StatusCode, Json<Receipt>), (StatusCode, Json<serde_json::Value>)> {
    ran("a36");
    drop((app, v));
    Ok((StatusCode::CREATED, Json(Receipt { no: 1 })))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a37(
    State(app): State<App>,
    Json(b): Json<Basket>,
) -> Reply<(StatusCode, [(HeaderName, String); 1], Json<Receipt>)> {
    ran("a37");
    drop((app, b));
    Ok((StatusCode::CREATED, [(header::LOCATION, "/r/1".into())], Json(Receipt { no: 1 })))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a38(State(app): State<App>, Json(b): Json<Basket>) -> Result<impl IntoResponse, Oops> {
    ran("a38");
    drop((app, b));
    Ok((StatusCode::CREATED, Json(Receipt { no: 1 })))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a40(State(app): State<App>) -> Response {
    ran("a40");
    drop(app);
    Body::from_stream(futures::stream::iter([Ok::<_, Infallible>("chunk")])).into_response()
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a41(
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    State(app): State<App>,
    Json(b): Json<Basket>,
) -> axum::response::Result<Json<Receipt>> {
    ran("a41");
    assert_eq!(from.port(), 9);
    Ok(Json(Receipt { no: u64::from(app.rate * b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a42(method: Method, OriginalUri(uri): OriginalUri, mp: MatchedPath, body: Bytes) -> StatusCode {
    ran("a42");
    assert_eq!((mp.as_str(), uri.path()), ("/a42/{id}", "/a42/7"));
    drop((method, body));
    StatusCode::OK
}

#[idempotent(ttl = "24h")]
pub(crate) async fn a43((State(app), Shopper(me)): (State<App>, Shopper), Json(b): Json<Basket>) -> StatusCode {
    ran("a43");
    assert_eq!(me, 1);
    drop((app, b));
    StatusCode::OK
}

#[allow(clippy::too_many_arguments)]
#[idempotent(ttl = "24h")]
pub(crate) async fn sixteen(
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
    ran("sixteen");
    drop((a, b, c, d, e, f, g, h, (i, j, k, l, m, n, o, p)));
    StatusCode::OK
}

#[idempotent(ttl = "24h")]
pub(crate) async fn borrowed(
    State(s): State<&'static App>,
    Json(b): Json<Basket>,
) -> Result<&'static str, (StatusCode, &'static str)> {
    ran("borrowed");
    assert_eq!((s.rate, b.qty), (3, 2));
    Ok("ok")
}

#[idempotent(ttl = "24h")]
pub(crate) async fn elided(State(s): State<&App>, Json(b): Json<Basket>) -> String {
    ran("elided");
    format!("{} x {}", s.rate, b.qty)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn qualified(
    axum::extract::State(app): axum::extract::State<App>,
    axum::Json(b): axum::Json<Basket>,
) -> axum::response::Response {
    ran("qualified");
    drop((app, b));
    StatusCode::OK.into_response()
}

#[idempotent(ttl = "24h")]
pub(crate) async fn mutable(
    State(mut app): State<App>,
    mut headers: HeaderMap,
    Json(Basket { sku, mut qty }): Json<Basket>,
) -> StatusCode {
    ran("mutable");
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
pub(crate) async fn generic<L: Ledger>(State(l): State<L>, Json(b): Json<Basket>) -> Reply<Json<Receipt>> {
    ran("generic");
    Ok(Json(Receipt { no: l.book().await + u64::from(b.qty) }))
}

#[idempotent(ttl = "24h")]
pub(crate) async fn generic_where<L, T>(State(l): State<Arc<L>>, Json(t): Json<T>) -> Result<StatusCode, Oops>
where
    L: Ledger,
    T: DeserializeOwned + Send,
{
    ran("generic_where");
    drop((l, t));
    Ok(StatusCode::OK)
}

#[idempotent(ttl = "24h")]
pub(crate) async fn const_generic<const MAX: usize>(body: Bytes) -> StatusCode {
    ran("const_generic");
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
pub(crate) async fn trait_object(State(app): State<DynApp>, Json(b): Json<Basket>) -> Json<Receipt> {
    ran("trait_object");
    Json(Receipt { no: (app.l)() + u64::from(b.qty) })
}

pub(crate) struct Api {
    idempotency: Idempotency,
    pub(crate) rate: u32,
}

// clippy takes an associated function for unused as a value, annotated or not.
#[allow(clippy::unused_async)]
impl Api {
    pub(crate) fn new() -> Self {
        Self { idempotency: Idempotency::new(MemoryStore::new()), rate: 3 }
    }

    #[idempotent(ttl = "24h")]
    pub(crate) async fn create(State(app): State<App>, Json(b): Json<Basket>) -> Reply<StatusCode> {
        ran("Api::create");
        drop((app, b));
        Ok(StatusCode::OK)
    }

    #[idempotent(ttl = "24h")]
    pub(crate) async fn of_self(State(this): State<Arc<Self>>, Json(b): Json<Basket>) -> Json<Receipt> {
        ran("Api::of_self");
        Json(Receipt { no: Self::total(this.rate, b.qty) })
    }

    /// The body names `Self`, the signature doesn't; `expect` is fulfilled where the body went.
    #[expect(unused_variables)]
    #[idempotent(ttl = "24h")]
    pub(crate) async fn calls_self(State(app): State<App>, unused: Method, Json(b): Json<Basket>) -> Json<Receipt> {
        ran("Api::calls_self");
        Json(Receipt { no: Self::total(app.rate, b.qty) })
    }

    #[idempotent(ttl = "24h", inner = Self::named_unguarded)]
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
make!(made, Basket);
make! {
    /// Its tokens come through a macro's fragments.
    #[allow(clippy::needless_pass_by_value)]
    pub(crate) async fn made_whole(State(app) => State<App>, Json(b) => Json<Basket>) -> Json<Receipt> {
        ran("made_whole");
        Json(Receipt { no: u64::from(app.rate * b.qty) })
    }
}

#[cfg_attr(debug_assertions, axum::debug_handler)]
#[allow(clippy::too_many_arguments)]
#[deprecated]
#[idempotent(ttl = "24h")]
pub(crate) async fn dressed(State(app): State<App>) -> Reply<StatusCode> {
    ran("dressed");
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
pub(crate) async fn with_extension(State(app): State<App>) -> (Extension<Caller>, Response) {
    ran("with_extension");
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
