//! The application the shapes belong to.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, LazyLock, Mutex},
};

use axum::{
    Json,
    body::Bytes,
    extract::{FromRef, FromRequest, FromRequestParts, Request, State, rejection::JsonRejection},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use idem_runtime::{HasIdempotency, Idempotency, store::MemoryStore};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

static RUNS: LazyLock<Mutex<HashMap<&'static str, usize>>> = LazyLock::new(Mutex::default);

/// Called by each handler, so that a test can count its runs.
pub(crate) fn ran(handler: &'static str) {
    *RUNS.lock().unwrap().entry(handler).or_default() += 1;
}

pub(crate) fn runs(handler: &str) -> usize {
    RUNS.lock().unwrap().get(handler).copied().unwrap_or_default()
}

#[derive(Clone)]
pub(crate) struct App {
    pub(crate) till: Till,
    pub(crate) rate: u32,
    idempotency: Idempotency,
}

impl App {
    pub(crate) fn new() -> Self {
        Self { till: Till, rate: 3, idempotency: Idempotency::new(MemoryStore::new()) }
    }
}

impl HasIdempotency for App {
    fn idempotency(&self) -> &Idempotency {
        &self.idempotency
    }
}

#[derive(Clone)]
pub(crate) struct Till;

impl FromRef<App> for Till {
    fn from_ref(app: &App) -> Self {
        app.till.clone()
    }
}

pub(crate) type Shared = Arc<App>;
pub(crate) type TillState = State<Till>;

#[derive(Debug)]
pub(crate) struct Oops;

impl IntoResponse for Oops {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

impl From<JsonRejection> for Oops {
    fn from(_: JsonRejection) -> Self {
        Self
    }
}

pub(crate) type Reply<T> = Result<T, Oops>;

#[derive(Deserialize, Serialize, Clone, Debug)]
pub(crate) struct Basket {
    pub(crate) sku: String,
    pub(crate) qty: u32,
}

#[derive(Deserialize, Serialize, Clone, Debug)]
pub(crate) struct Receipt {
    pub(crate) no: u64,
}

#[derive(Deserialize, Default)]
pub(crate) struct Flags {
    pub(crate) dry: Option<bool>,
}

#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) id: u64,
}

pub(crate) struct Shopper(pub(crate) u64);

impl<S: Sync> FromRequestParts<S> for Shopper {
    type Rejection = StatusCode;
    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Self(1))
    }
}

pub(crate) struct Claims {
    pub(crate) sub: u64,
}

impl<S: Sync> FromRequestParts<S> for Claims {
    type Rejection = StatusCode;
    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Self { sub: 1 })
    }
}

pub(crate) struct Checked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Checked<T> {
    type Rejection = Response;
    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let Json(value) = Json::<T>::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        Ok(Self(value))
    }
}

pub(crate) struct SignedEvent(pub(crate) serde_json::Value);

impl<S: Send + Sync> FromRequest<S> for SignedEvent {
    type Rejection = Response;
    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let body = Bytes::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        Ok(Self(serde_json::from_slice(&body).unwrap_or_default()))
    }
}

#[derive(Clone)]
pub(crate) struct Ctx(pub(crate) App);

impl<S: Send + Sync> FromRequestParts<S> for Ctx
where
    App: FromRef<S>,
{
    type Rejection = Infallible;
    async fn from_request_parts(_: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self(App::from_ref(state)))
    }
}
