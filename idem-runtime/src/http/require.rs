//! The light layer: refuses what carries no key, and guards nothing.

use std::{
    future::ready,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    extract::MatchedPath,
    response::{IntoResponse, Response},
};
use http::{Method, Request};
use tower_service::Service;

use super::extract::{read_key, refuse};
use crate::{Idempotency, policy::Policy, telemetry::Operation};

/// Refuses POST and PATCH requests without a usable `Idempotency-Key`. Made by [`Idempotency::require_key`].
#[derive(Clone, Debug)]
pub struct RequireKeyLayer {
    idempotency: Idempotency,
}

/// A service below a [`RequireKeyLayer`].
#[derive(Clone, Debug)]
pub struct RequireKey<S> {
    inner: S,
    idempotency: Idempotency,
}

impl Idempotency {
    /// A tower layer that refuses POST and PATCH requests without a usable `Idempotency-Key` (400), and does nothing else: for a
    /// service that hands the key on to one that guards, or before handlers whose key is `optional`.
    ///
    /// ```
    /// use axum::{Router, routing::post};
    /// use idem_runtime::{Idempotency, store::MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let app: Router = Router::new().route("/orders", post(|| async { "ordered" })).layer(idempotency.require_key());
    /// ```
    pub fn require_key(&self) -> RequireKeyLayer {
        RequireKeyLayer { idempotency: self.clone() }
    }
}

impl<S> tower_layer::Layer<S> for RequireKeyLayer {
    type Service = RequireKey<S>;

    fn layer(&self, inner: S) -> RequireKey<S> {
        RequireKey { inner, idempotency: self.idempotency.clone() }
    }
}

/// The refusal of a request that needs a key and has none.
fn refusal<B>(request: &Request<B>, idempotency: &Idempotency) -> Option<Response> {
    if !matches!(*request.method(), Method::POST | Method::PATCH) {
        return None;
    }
    let header = Policy::DEFAULT.header;
    let problem = read_key(request.headers(), header, header, false).err()?;
    let operation = Operation::of_route("", request.method(), request.extensions().get::<MatchedPath>());
    Some(refuse(problem, Some(idempotency), &operation))
}

impl<S, B> Service<Request<B>> for RequireKey<S>
where
    S: Service<Request<B>>,
    S::Response: IntoResponse,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match refusal(&request, &self.idempotency) {
            None => {
                let answering = self.inner.call(request);
                Box::pin(async move { answering.await.map(IntoResponse::into_response) })
            }
            Some(refusal) => Box::pin(ready(Ok(refusal))),
        }
    }
}
