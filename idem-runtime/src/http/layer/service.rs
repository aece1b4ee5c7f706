//! One request through the layer.

use std::{
    convert::Infallible,
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    BoxError,
    body::Body,
    extract::{MatchedPath, Request},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::StatusCode;
use tower_service::Service;

use super::Config;
use crate::{
    http::{
        Settle,
        extract::{Mode, captured, read_key, refuse},
        guard::{guard, operation_of},
        handover::{self, HandedOver, LetGo},
    },
    policy::Unknown,
};

/// Nothing below has run yet.
pub(super) const UNSEEN: u8 = 0;
/// What is below leaves its guarding to the layer, so far.
const PLAIN: u8 = 1;
/// Something below guards itself.
const TAKES_OVER: u8 = 2;

/// A service below an [`IdempotencyLayer`](super::IdempotencyLayer).
#[derive(Clone)]
pub struct Guarded<S> {
    pub(super) inner: S,
    pub(super) config: Arc<Config>,
    /// What was seen of the service: only decides how patient duplicates are.
    pub(super) below: Arc<AtomicU8>,
}

impl<S: fmt::Debug> fmt::Debug for Guarded<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("inner", &self.inner).finish_non_exhaustive()
    }
}

type Answering<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl<S, B> Service<http::Request<B>> for Guarded<S>
where
    S: Service<Request> + Clone + Send + 'static,
    S::Response: IntoResponse,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Answering<Response, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let request = request.map(Body::new);
        // The clone has not been asked whether it is ready; the one that was goes with the request.
        let next = self.inner.clone();
        let mut this = Self { inner: std::mem::replace(&mut self.inner, next), ..self.clone() };
        if this.config.methods.contains(request.method()) {
            Box::pin(this.guarded(request))
        } else {
            Box::pin(async move { this.inner.call(request).await.map(IntoResponse::into_response) })
        }
    }
}

/// What a run leaves beside its answer.
enum Left<S: Service<Request>> {
    Failed(S::Error),
    /// Something below guards itself; it goes on once it is let go.
    HandedOver(Pin<Box<S::Future>>, LetGo),
}

/// Where it leaves it.
struct Aside<S: Service<Request>>(Arc<Mutex<Option<Left<S>>>>);

impl<S: Service<Request>> Aside<S> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    fn put(&self, left: Left<S>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
    }

    fn take(&self) -> Option<Left<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<S> Guarded<S>
where
    S: Service<Request> + Send + 'static,
    S::Response: IntoResponse,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
{
    async fn guarded(self, mut request: Request) -> Result<Response, S::Error> {
        // Another layer above: the innermost guards.
        if let Some(offer) = handover::offered(request.extensions_mut()) {
            offer.take_up().await;
        }
        let Self { inner, config, below } = self;
        let Config { idempotency, policy, .. } = &*config;
        let mode = if config.key.is_some() { Mode::Expression } else { Mode::OtherHeader };
        if mode == Mode::OtherHeader
            && let Err(problem) = read_key(request.headers(), policy.header, policy.header, policy.optional)
        {
            let operation = operation_of(policy, request.method(), request.extensions().get::<MatchedPath>());
            return Ok(refuse(problem, Some(idempotency), &operation));
        }
        let (parts, body) = request.into_parts();
        let key = config.key.as_ref().map(|read| read(&parts));
        let scope = config.scope.as_ref().map(|read| read(&parts));
        let mut request = Request::from_parts(parts, body);
        let mut head = match captured(&mut request, Some(idempotency.clone()), mode).await {
            Ok(head) => head,
            Err(refusal) => return Ok(refusal),
        };
        let policy = if below.load(Ordering::Relaxed) == PLAIN { policy } else { &config.patient };
        if let Some(scope) = scope {
            head.scope(|| scope);
        }
        if let Some(key) = key {
            head.key(|| key);
        }
        let aside = Aside::new();
        let work = run(inner, request, policy.unknown, below, aside.share());
        let response = guard(*policy, head, Box::pin(work)).await;
        match aside.take() {
            None => Ok(response),
            Some(Left::Failed(error)) => Err(error),
            Some(Left::HandedOver(answering, let_go)) => {
                // Whoever waited for it may have gone.
                let _ = let_go.send(());
                answering.await.map(IntoResponse::into_response)
            }
        }
    }
}

/// Runs the service below until it has answered, or takes over.
async fn run<S>(mut inner: S, mut request: Request, unknown: Unknown, below: Arc<AtomicU8>, aside: Aside<S>) -> Response
where
    S: Service<Request>,
    S::Response: IntoResponse,
{
    let (offer, mut taken) = handover::offer();
    request.extensions_mut().insert(offer);
    let mut answering = Box::pin(inner.call(request));
    let plain = || below.compare_exchange(UNSEEN, PLAIN, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let answer = tokio::select! {
        biased;
        answer = &mut answering => answer,
        Some(let_go) = taken.recv() => {
            below.store(TAKES_OVER, Ordering::Relaxed);
            aside.put(Left::HandedOver(answering, let_go));
            let mut none = Response::default();
            none.extensions_mut().insert(HandedOver);
            return none;
        }
        // Arguments mostly come without waiting, so what waits and has not taken over is a handler that runs.
        never = poll_fn(|_| { plain(); Poll::<Infallible>::Pending }) => match never {},
    };
    plain();
    match answer {
        Ok(response) => response.into_response(),
        Err(error) => {
            aside.put(Left::Failed(error));
            let settle = if unknown == Unknown::Hold { Settle::Hold } else { Settle::Release };
            (StatusCode::INTERNAL_SERVER_ERROR, axum::Extension(settle)).into_response()
        }
    }
}
