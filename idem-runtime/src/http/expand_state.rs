//! What the expansion of `#[idempotent(…, state = X)]` calls: the wrapper extracts for itself, so that each mistake in a
//! state or an extractor is one error at the type that causes it.

use std::{fmt, future::Future, pin::Pin};

use axum::{
    extract::{FromRef, FromRequest, FromRequestParts, Request},
    response::{IntoResponse, Response},
};
use http::request::Parts;

use super::{
    extract::{InLayer, KeyMode, NeedsIdempotency},
    provide::{Provides, Via, ViaLayer},
};

/// Holds a parameter's place: the wrapper has as many as the handler.
#[derive(Debug)]
pub struct Skipped;

impl<S: Sync> FromRequestParts<S> for Skipped {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self)
    }
}

/// The request and the state named by `state = X`.
pub struct Incoming<X> {
    parts: Parts,
    body: axum::body::Body,
    state: X,
}

impl<X> fmt::Debug for Incoming<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}

impl<S, X> FromRequest<S> for Incoming<X>
where
    S: Sync,
    X: FromRef<S>,
{
    type Rejection = std::convert::Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let (parts, body) = request.into_parts();
        Ok(Self { parts, body, state: X::from_ref(state) })
    }
}

/// Hands the state's `Idempotency` to the last extractor.
pub fn supply<X: Provides<N>, N>(mut incoming: Incoming<X>) -> Incoming<X> {
    if let Some(idempotency) = incoming.state.provide(&incoming.parts.extensions) {
        incoming.parts.extensions.insert(idempotency);
    }
    incoming
}

type Extracted<'a, T> = Pin<Box<dyn Future<Output = Result<T, Response>> + Send + 'a>>;

/// One of the parameters before the last.
pub fn part_of<T, X>(incoming: &mut Incoming<X>) -> Extracted<'_, T>
where
    T: FromRequestParts<X>,
    X: Send + Sync,
{
    let Incoming { parts, state, .. } = incoming;
    Box::pin(async move { T::from_request_parts(parts, state).await.map_err(IntoResponse::into_response) })
}

/// The last parameter, with what idempotency needs of the request.
pub fn last_of<E, K, X, M>(incoming: Incoming<X>) -> Extracted<'static, NeedsIdempotency<E, InLayer<K>>>
where
    E: FromRequest<X, M> + Send + 'static,
    X: Send + Sync + 'static,
    K: KeyMode,
    M: 'static,
{
    let Incoming { parts, body, state } = incoming;
    Box::pin(async move {
        let request = Request::from_parts(parts, body);
        <NeedsIdempotency<E, InLayer<K>> as FromRequest<X, Via<M, ViaLayer>>>::from_request(request, &state).await
    })
}
