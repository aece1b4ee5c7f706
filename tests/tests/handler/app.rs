//! The application under test.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Extension, Form, Json, Router,
    body::{Body, Bytes},
    extract::{FromRef, FromRequestParts, Multipart, Path, State},
    http::{HeaderName, HeaderValue, StatusCode, header, request::Parts},
    response::{AppendHeaders, IntoResponse, Response},
    routing::{get, post},
};
use futures::stream;
use idem_runtime::{Attempt, Idempotency, Settle, idempotent, store::MemoryStore};
use idem_tests::server::Server;
use serde_json::{Value, json};
use tokio::sync::Notify;

#[derive(Clone, FromRef)]
pub(crate) struct App {
    pub(crate) ledger: Ledger,
    pub(crate) idempotency: Idempotency,
}

/// What the handlers really did, and how the tests hold them up.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Inner>);

#[derive(Default)]
struct Inner {
    runs: AtomicUsize,
    ended: AtomicUsize,
    started: Notify,
    gate: Notify,
    revoked: Mutex<HashSet<String>>,
    statuses: Mutex<Vec<u16>>,
}

impl Ledger {
    pub(crate) fn run(&self) -> usize {
        self.0.started.notify_one();
        self.0.runs.fetch_add(1, Ordering::SeqCst) + 1
    }
    pub(crate) fn runs(&self) -> usize {
        self.0.runs.load(Ordering::SeqCst)
    }
    pub(crate) fn ended(&self) -> usize {
        self.0.ended.load(Ordering::SeqCst)
    }
    /// Waits until a handler has started.
    pub(crate) async fn started(&self) {
        self.0.started.notified().await;
    }
    /// Lets one gated handler go on.
    pub(crate) fn open(&self) {
        self.0.gate.notify_one();
    }
    /// Waits for the gate.
    pub(crate) async fn passed(&self) {
        self.0.gate.notified().await;
    }
    pub(crate) fn revoke(&self, user: &str) {
        self.0.revoked.lock().unwrap().insert(user.into());
    }
    /// Counts a run, and answers it with the next status that [`answer_with`](Self::answer_with) named.
    pub(crate) fn answer(&self, text: &str) -> (StatusCode, String) {
        let run = self.run();
        let status = self.0.statuses.lock().unwrap().pop().unwrap_or(200);
        (StatusCode::from_u16(status).unwrap(), format!("run {run}: {text}"))
    }
    /// The statuses that `/answers` gives, the first one first; 200 when there are no more.
    pub(crate) fn answer_with(&self, statuses: &[u16]) {
        *self.0.statuses.lock().unwrap() = statuses.iter().rev().copied().collect();
    }
}

/// The caller: `Authorization: Bearer NAME`, unless revoked.
pub(crate) struct User(pub(crate) String);

impl<S: Sync> FromRequestParts<S> for User
where
    Ledger: FromRef<S>,
{
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, StatusCode> {
        let name =
            parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let name = name.ok_or(StatusCode::UNAUTHORIZED)?.to_owned();
        let ledger = Ledger::from_ref(state);
        if ledger.0.revoked.lock().unwrap().contains(&name) {
            return Err(StatusCode::UNAUTHORIZED);
        }
        Ok(Self(name))
    }
}

#[idempotent(ttl = "24h")]
async fn create(State(ledger): State<Ledger>, Json(order): Json<Value>) -> (StatusCode, Json<Value>) {
    (StatusCode::CREATED, Json(json!({ "run": ledger.run(), "order": order })))
}

#[idempotent(ttl = "500ms", lease = "200ms")]
async fn brief(State(ledger): State<Ledger>, Json(_): Json<Value>) -> Json<usize> {
    Json(ledger.run())
}

#[idempotent(ttl = "24h", operation = "orders.capture")]
async fn named(State(ledger): State<Ledger>, Path(id): Path<u64>, body: Bytes) -> String {
    format!("{} {id} {}", ledger.run(), body.len())
}

#[idempotent(ttl = "24h")]
async fn form(State(ledger): State<Ledger>, Form(pairs): Form<Vec<(String, String)>>) -> String {
    format!("{} {}", ledger.run(), pairs.len())
}

#[idempotent(ttl = "24h")]
async fn upload(State(ledger): State<Ledger>, mut parts: Multipart) -> String {
    let mut bytes = 0;
    while let Some(field) = parts.next_field().await.unwrap() {
        bytes += field.bytes().await.unwrap().len();
    }
    format!("{} {bytes}", ledger.run())
}

#[idempotent(ttl = "24h", optional)]
async fn optional(State(ledger): State<Ledger>) -> Json<usize> {
    Json(ledger.run())
}

#[idempotent(ttl = "24h", header = "X-Request-Id")]
async fn other_header(State(ledger): State<Ledger>) -> Json<usize> {
    Json(ledger.run())
}

#[idempotent(ttl = "24h", key = event["id"].as_str())]
async fn webhook(State(ledger): State<Ledger>, Json(event): Json<Value>) -> Json<usize> {
    let _ = event;
    Json(ledger.run())
}

#[idempotent(ttl = "24h", key = (shop, event.as_str()), unknown = hold)]
async fn parts(State(ledger): State<Ledger>, Path(shop): Path<u32>, event: String) -> StatusCode {
    ledger.run();
    StatusCode::INTERNAL_SERVER_ERROR
}

#[idempotent(ttl = "24h")]
async fn private(State(ledger): State<Ledger>, user: User) -> String {
    format!("{} belongs to {}", ledger.run(), user.0)
}

#[idempotent(ttl = "24h", scope = user.0)]
async fn scoped(State(ledger): State<Ledger>, user: User) -> String {
    format!("{} belongs to {}", ledger.run(), user.0)
}

#[idempotent(ttl = "24h", lease = "10s")]
async fn gated(State(ledger): State<Ledger>) -> Json<usize> {
    let run = ledger.run();
    ledger.0.gate.notified().await;
    ledger.0.ended.fetch_add(1, Ordering::SeqCst);
    Json(run)
}

#[idempotent(ttl = "24h", lease = "10s", wait = "5s")]
async fn awaited(State(ledger): State<Ledger>) -> Json<usize> {
    let run = ledger.run();
    ledger.0.gate.notified().await;
    Json(run)
}

#[idempotent(ttl = "24h")]
async fn slow(State(ledger): State<Ledger>, Json(_): Json<Value>) -> Json<usize> {
    let run = ledger.run();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    Json(run)
}

#[expect(clippy::panic, reason = "the point")]
#[idempotent(ttl = "24h")]
async fn panics(State(ledger): State<Ledger>) -> Json<usize> {
    let run = ledger.run();
    if run == 1 {
        panic!("the first run panics");
    }
    Json(run)
}

#[idempotent(ttl = "24h")]
async fn decorated(State(ledger): State<Ledger>) -> Response {
    ledger.run();
    let mut response = (
        StatusCode::SEE_OTHER,
        AppendHeaders([
            (header::LOCATION, "/orders/1"),
            (header::ETAG, "\"1\""),
            (header::LINK, "<a>; rel=first"),
            (header::LINK, "<b>; rel=last"),
            (header::SET_COOKIE, "session=1"),
            (header::SET_COOKIE, "theme=2"),
            (header::WWW_AUTHENTICATE, "Bearer"),
            (header::CONNECTION, "x-hop"),
            (HeaderName::from_static("x-hop"), "1"),
            (HeaderName::from_static("x-request-id"), "1"),
            (HeaderName::from_static("x-ratelimit-remaining"), "9"),
            (HeaderName::from_static("x-kept"), "yes"),
        ]),
        Bytes::from_static(&[0, 255, 10, 13]),
    )
        .into_response();
    response.headers_mut().insert("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap());
    response
}

async fn answers(ledger: Ledger) -> (StatusCode, String) {
    let run = ledger.run();
    let status = ledger.0.statuses.lock().unwrap().pop().unwrap_or(200);
    (StatusCode::from_u16(status).unwrap(), format!("run {run}"))
}

#[idempotent(ttl = "24h")]
async fn deterministic(State(ledger): State<Ledger>) -> impl IntoResponse {
    answers(ledger).await
}

#[idempotent(ttl = "24h", record = success)]
async fn success(State(ledger): State<Ledger>) -> impl IntoResponse {
    answers(ledger).await
}

#[idempotent(ttl = "24h", record = all)]
async fn all(State(ledger): State<Ledger>) -> impl IntoResponse {
    answers(ledger).await
}

#[expect(clippy::panic, reason = "the point")]
#[idempotent(ttl = "24h", unknown = hold)]
async fn held(State(ledger): State<Ledger>) -> impl IntoResponse {
    let (status, text) = answers(ledger).await;
    if status == StatusCode::IM_A_TEAPOT {
        panic!("a teapot panics");
    }
    (status, text)
}

#[idempotent(ttl = "24h")]
async fn overriding(State(ledger): State<Ledger>, Path(choice): Path<String>) -> impl IntoResponse {
    let settle = match &*choice {
        "keep" => Settle::Keep,
        "hold" => Settle::Hold,
        _ => Settle::Release,
    };
    let (status, text) = answers(ledger).await;
    (status, Extension(settle), text)
}

#[idempotent(ttl = "24h")]
async fn attempt(ledger: State<Ledger>, attempt: Attempt) -> Json<Value> {
    ledger.run();
    Json(json!({ "epoch": attempt.epoch(), "number": attempt.number(), "token": attempt.token() }))
}

/// A body of `n` bytes in one piece.
#[idempotent(ttl = "24h", max_response = "1000B")]
async fn whole(State(ledger): State<Ledger>, Path(n): Path<usize>) -> ([(HeaderName, &'static str); 1], Vec<u8>) {
    ledger.run();
    ([(header::CONTENT_TYPE, "x/y")], vec![b'x'; n])
}

/// `n` pieces of 100 bytes, each when the gate opens.
#[idempotent(ttl = "24h", lease = "1s", max_response = "1000B")]
async fn pieces(State(ledger): State<Ledger>, Path((n, end)): Path<(usize, String)>) -> Body {
    ledger.run();
    Body::from_stream(stream::unfold((0, ledger.0, end), move |(sent, ledger, end)| async move {
        ledger.gate.notified().await;
        if sent < n {
            return Some((Ok(Bytes::from(vec![b'x'; 100])), (sent + 1, ledger, end)));
        }
        match &*end {
            "end" => None,
            "fail" if sent == n => Some((Err(std::io::Error::other("half-way")), (sent + 1, ledger, end))),
            _ => std::future::pending().await,
        }
    }))
}

async fn list(State(ledger): State<Ledger>) -> Json<usize> {
    Json(ledger.runs())
}

#[idempotent(ttl = "24h")]
async fn read(State(ledger): State<Ledger>) -> Json<usize> {
    Json(ledger.run())
}

#[idempotent(ttl = "24h", store = layer)]
async fn layered(_: Extension<Ledger>) -> StatusCode {
    StatusCode::OK
}

pub(crate) fn router(app: App) -> Router {
    let nested = Router::new().route("/orders/{id}", post(named).delete(named));
    Router::new()
        .route("/orders", post(create).get(list))
        .route("/other", post(create))
        .route("/brief", post(brief))
        .route("/form", post(form))
        .route("/upload", post(upload))
        .route("/optional", post(optional))
        .route("/other-header", post(other_header))
        .route("/webhook", post(webhook))
        .route("/parts/{shop}", post(parts))
        .route("/private", post(private))
        .route("/scoped", post(scoped))
        .route("/gated", post(gated))
        .route("/awaited", post(awaited))
        .route("/slow", post(slow))
        .route("/panics", post(panics))
        .route("/decorated", post(decorated))
        .route("/deterministic", post(deterministic))
        .route("/success", post(success))
        .route("/all", post(all))
        .route("/held", post(held))
        .route("/overriding/{choice}", post(overriding))
        .route("/attempt", post(attempt))
        .route("/whole/{n}", post(whole))
        .route("/pieces/{n}/{end}", post(pieces))
        .route("/read", get(read).post(read).options(read))
        .route("/layered", post(layered))
        .nest("/v1", nested.clone())
        .nest("/v2", nested)
        .layer(Extension(app.ledger.clone()))
        .with_state(app)
}

pub(crate) struct Test {
    pub(crate) server: Server,
    pub(crate) ledger: Ledger,
    pub(crate) idempotency: Idempotency,
}

/// A server of its own for each test.
pub(crate) async fn start() -> Test {
    start_with(Idempotency::new(MemoryStore::new()), |router| router).await
}

pub(crate) async fn start_with(idempotency: Idempotency, layers: impl FnOnce(Router) -> Router) -> Test {
    let ledger = Ledger::default();
    let app = App { ledger: ledger.clone(), idempotency: idempotency.clone() };
    Test { server: Server::start(layers(router(app))).await, ledger, idempotency }
}
