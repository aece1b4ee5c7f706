//! The wrapper's last parameter: keeps what idempotency needs of a request and hands the rest on.

use std::{fmt, future::Future, marker::PhantomData};

use axum::{
    extract::{FromRequest, Request},
    response::{IntoResponse, Response},
};

use super::provide::{Provides, Via, ViaLayer};

/// What is kept of the request beside the handler's own arguments.
#[derive(Debug)]
pub struct Head {}

/// The handler's last argument `E`, with what idempotency needs of the request.
///
/// Its name is in axum's error where a router's state holds no [`Idempotency`](crate::Idempotency): the handler needs one.
pub struct NeedsIdempotency<E, O = InState<Required>> {
    head: Head,
    inner: E,
    mode: PhantomData<fn() -> O>,
}

impl<E, O> fmt::Debug for NeedsIdempotency<E, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NeedsIdempotency").finish_non_exhaustive()
    }
}

impl<E, O> NeedsIdempotency<E, O> {
    pub(crate) fn split(self) -> (Head, E) {
        (self.head, self.inner)
    }
}

/// The handle comes from the router's state; `K` says where the key comes from.
#[derive(Debug)]
pub struct InState<K>(PhantomData<fn() -> K>);
/// The handle comes from a layer; `K` says where the key comes from.
#[derive(Debug)]
pub struct InLayer<K>(PhantomData<fn() -> K>);

/// Where the key comes from, as far as the extractor must know.
pub trait KeyMode: 'static {}

/// `Idempotency-Key`, required.
#[derive(Debug)]
pub struct Required(());
/// `Idempotency-Key`, optional.
#[derive(Debug)]
pub struct Optional(());
/// A header of the policy's own name.
#[derive(Debug)]
pub struct OtherHeader(());
/// The handler's parameters.
#[derive(Debug)]
pub struct Expression(());

impl KeyMode for Required {}
impl KeyMode for Optional {}
impl KeyMode for OtherHeader {}
impl KeyMode for Expression {}

impl<S, E, M, N, K> FromRequest<S, Via<M, N>> for NeedsIdempotency<E, InState<K>>
where
    S: Provides<N> + Send + Sync,
    E: FromRequest<S, M> + Send,
    K: KeyMode,
    M: 'static,
    N: 'static,
{
    type Rejection = Response;

    fn from_request(request: Request, state: &S) -> impl Future<Output = Result<Self, Response>> + Send {
        async move {
            let _ = state.provide(request.extensions());
            let inner = E::from_request(request, state).await.map_err(IntoResponse::into_response)?;
            Ok(Self { head: Head {}, inner, mode: PhantomData })
        }
    }
}

impl<S, E, M, K> FromRequest<S, Via<M, ViaLayer>> for NeedsIdempotency<E, InLayer<K>>
where
    S: Send + Sync,
    E: FromRequest<S, M> + Send,
    K: KeyMode,
    M: 'static,
{
    type Rejection = Response;

    fn from_request(request: Request, state: &S) -> impl Future<Output = Result<Self, Response>> + Send {
        async move {
            let inner = E::from_request(request, state).await.map_err(IntoResponse::into_response)?;
            Ok(Self { head: Head {}, inner, mode: PhantomData })
        }
    }
}
