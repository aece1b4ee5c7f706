//! What the expansion of `#[idempotent(…, state = X)]` calls: the wrapper extracts for itself, so that each mistake in a
//! state or an extractor is one error at the type that causes it.

use std::{fmt, future::Future, pin::Pin};

use axum::{
    extract::{FromRef, FromRequest, FromRequestParts, Request},
    response::{IntoResponse, Response},
};
use http::request::Parts;

use crate::__private::IdemFuture;

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

/// An argument before the last.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't stand before the last argument",
    label = "reads the body, or is no extractor for a router of `{X}`",
    note = "what reads the body, such as `Json`, `Form` or `Bytes`, comes last",
    note = "anything else implements `FromRequestParts`; see https://docs.rs/axum/0.8/axum/extract/index.html"
)]
pub trait Argument<X>: FromRequestParts<X> {}

#[diagnostic::do_not_recommend]
impl<T: FromRequestParts<X>, X> Argument<X> for T {}

/// The last argument.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no extractor",
    label = "can't be taken from a request to a router of `{X}`",
    note = "what `Json`, `Form`, `Query` or `Path` hold implements `serde::Deserialize`",
    note = "other arguments implement `FromRequest` or `FromRequestParts`; see https://docs.rs/axum/0.8/axum/extract/index.html"
)]
pub trait LastArgument<X, M>: FromRequest<X, M> {}

#[diagnostic::do_not_recommend]
impl<T: FromRequest<X, M>, X, M> LastArgument<X, M> for T {}

type Refusable<T> = Pin<Box<dyn Future<Output = Result<T, Response>> + Send>>;

/// What was extracted so far, `P`, or the refusal.
pub struct Extracting<X, P>(Refusable<(Incoming<X>, P)>);

impl<X, P> fmt::Debug for Extracting<X, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extracting").finish_non_exhaustive()
    }
}

/// All parameters, or the refusal.
pub struct Extracted<P, L>(Refusable<(P, L)>);

impl<P, L> fmt::Debug for Extracted<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extracted").finish_non_exhaustive()
    }
}

/// Hands the state's `Idempotency` to the last extractor.
pub fn supply<X: Provides<N> + Send + 'static, N>(mut incoming: Incoming<X>) -> Extracting<X, ()> {
    if let Some(idempotency) = incoming.state.provide(&incoming.parts.extensions) {
        incoming.parts.extensions.insert(idempotency);
    }
    supplied_by_layer(incoming)
}

/// The last extractor finds what the layer brought.
pub fn supplied_by_layer<X: Send + 'static>(incoming: Incoming<X>) -> Extracting<X, ()> {
    Extracting(Box::pin(std::future::ready(Ok((incoming, ())))))
}

/// One of the parameters before the last.
pub fn part_of<T, X, P>(before: Extracting<X, P>) -> Extracting<X, (P, T)>
where
    T: Argument<X> + Send + 'static,
    X: Send + Sync + 'static,
    P: Send + 'static,
{
    Extracting(Box::pin(async move {
        let (mut incoming, parts) = before.0.await?;
        let Incoming { parts: head, state, .. } = &mut incoming;
        let part = T::from_request_parts(head, state).await.map_err(IntoResponse::into_response)?;
        Ok((incoming, (parts, part)))
    }))
}

/// The last parameter, with what idempotency needs of the request.
pub fn last_of<E, K, X, M, P>(before: Extracting<X, P>) -> Extracted<P, NeedsIdempotency<E, InLayer<K>>>
where
    E: LastArgument<X, M> + Send + 'static,
    X: Send + Sync + 'static,
    K: KeyMode,
    M: 'static,
    P: Send + 'static,
{
    Extracted(Box::pin(async move {
        let (Incoming { parts: head, body, state }, parts) = before.0.await?;
        let request = Request::from_parts(head, body);
        let last = <NeedsIdempotency<E, InLayer<K>> as FromRequest<X, Via<M, ViaLayer>>>::from_request(request, &state);
        Ok((parts, last.await?))
    }))
}

/// Goes on with the parameters.
pub fn then<P, L>(extracted: Extracted<P, L>, guarded: fn(P, L) -> IdemFuture) -> IdemFuture
where
    P: Send + 'static,
    L: Send + 'static,
{
    IdemFuture::new(async move {
        match extracted.0.await {
            Ok((parts, last)) => guarded(parts, last).await,
            Err(refusal) => refusal,
        }
    })
}
