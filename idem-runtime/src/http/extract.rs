//! The wrapper's last parameter: keeps what idempotency needs of a request and hands the rest on.

use std::{fmt, marker::PhantomData, sync::Arc};

use axum::{
    extract::{FromRequest, MatchedPath, OriginalUri, Request},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header::CONTENT_TYPE};

use super::{
    attempt, body, handover,
    key::{self, Key},
    problem::{KeyInvalid, KeyMissing, Problem},
    provide::{Provides, Via, ViaLayer},
};
use crate::{
    Idempotency,
    engine::AttemptCell,
    policy::Policy,
    telemetry::{self, Outcome},
};

/// What is kept of the request beside the handler's own arguments.
#[derive(Debug)]
pub struct Head {
    pub(super) method: Method,
    /// As the client sent it; nesting strips the request's own.
    pub(super) uri: Uri,
    pub(super) route: Option<MatchedPath>,
    pub(super) content_type: Option<HeaderValue>,
    pub(super) credentials: Vec<(HeaderName, HeaderValue)>,
    pub(super) key: KeySource,
    pub(super) body: Bytes,
    /// `None` where the layer that should bring it is missing.
    pub(super) idempotency: Option<Idempotency>,
    pub(super) attempt: Arc<AttemptCell>,
    /// What the `scope` expression gave.
    pub(crate) scope: Option<Value>,
    /// What the `key` expression gave.
    pub(crate) given: Option<Value>,
}

/// What a `key` or `scope` expression gave: `None` where an `Option` in it is empty.
pub(super) type Value = Option<Vec<u8>>;

/// What the request's head says of the key.
#[derive(Debug)]
pub(super) enum KeySource {
    /// It was read from `Idempotency-Key`, which may be absent.
    Read(Option<Key>),
    /// It is in a header of the policy's own name.
    Headers(HeaderMap),
    /// It is in the handler's parameters.
    Expression,
    /// The method is safe: there is nothing to guard.
    Ignored,
}

/// The handler's last argument `E`, with what idempotency needs of the request.
///
/// Its name is in axum's error where a router's state holds no [`Idempotency`]: the handler needs one.
/// `O` says where the handle and the key come from.
pub struct NeedsIdempotency<E, O = InState<Required>> {
    // In a box: it goes through the future of every step of a request.
    head: Box<Head>,
    inner: E,
    mode: PhantomData<fn() -> O>,
}

impl<E, O> fmt::Debug for NeedsIdempotency<E, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NeedsIdempotency").field("head", &self.head).finish_non_exhaustive()
    }
}

impl<E, O> NeedsIdempotency<E, O> {
    pub(crate) fn split(self) -> (Box<Head>, E) {
        (self.head, self.inner)
    }

    /// Lets `E` have the request as it was.
    fn take<S, M>(
        request: Request,
        state: &S,
        idempotency: Option<Idempotency>,
        mode: Mode,
    ) -> impl Future<Output = Result<Self, Response>> + Send
    where
        S: Sync,
        E: FromRequest<S, M> + Send,
    {
        let captured = captured(request, idempotency, mode);
        async move {
            let (request, head) = captured.await?;
            let inner = E::from_request(request, state).await.map_err(IntoResponse::into_response)?;
            Ok(Self { head, inner, mode: PhantomData })
        }
    }
}

/// The handle comes from the router's state; `K` says where the key comes from.
#[derive(Debug)]
pub struct InState<K>(PhantomData<fn() -> K>);
/// The handle comes from a layer; `K` says where the key comes from.
#[derive(Debug)]
pub struct InLayer<K>(PhantomData<fn() -> K>);

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

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Required {}
    impl Sealed for super::Optional {}
    impl Sealed for super::OtherHeader {}
    impl Sealed for super::Expression {}
}

/// Where the key comes from, as far as it can be read before the body.
pub trait KeyMode: sealed::Sealed + 'static {
    #[doc(hidden)]
    const MODE: Mode;
}

#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Required,
    Optional,
    OtherHeader,
    Expression,
}

impl KeyMode for Required {
    const MODE: Mode = Mode::Required;
}
impl KeyMode for Optional {
    const MODE: Mode = Mode::Optional;
}
impl KeyMode for OtherHeader {
    const MODE: Mode = Mode::OtherHeader;
}
impl KeyMode for Expression {
    const MODE: Mode = Mode::Expression;
}

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
        let idempotency = state.provide(request.extensions());
        Self::take(request, state, idempotency, K::MODE)
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
        let idempotency = request.extensions().get().cloned();
        Self::take(request, state, idempotency, K::MODE)
    }
}

/// Reads the key, then the body, and gives back the request as it was. What needs no waiting is done before the future is
/// made, so that the future holds little.
pub(super) fn captured(
    mut request: Request,
    idempotency: Option<Idempotency>,
    mode: Mode,
) -> impl Future<Output = Result<(Request, Box<Head>), Response>> + Send {
    let head = capture(&mut request, idempotency, mode);
    async move {
        // A layer above has claimed for whatever stands below it; from here on this one guards.
        handover::take_over(request.extensions_mut()).await;
        let mut head = head?;
        if !matches!(head.key, KeySource::Ignored) {
            (request, head.body) = body::read(request).await?;
        }
        Ok((request, head))
    }
}

/// Keeps what is needed of everything but the body.
#[expect(clippy::result_large_err, reason = "an answer, as extractors refuse with")]
fn capture(request: &mut Request, idempotency: Option<Idempotency>, mode: Mode) -> Result<Box<Head>, Response> {
    let uri =
        request.extensions().get::<OriginalUri>().map_or_else(|| request.uri().clone(), |original| original.0.clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let headers = request.headers();
    let key = match mode {
        // Without the handle there is nothing to refuse by; the wrapper says what is missing.
        _ if is_safe(request.method()) || idempotency.is_none() => KeySource::Ignored,
        Mode::Expression => KeySource::Expression,
        Mode::OtherHeader => KeySource::Headers(headers.clone()),
        Mode::Required | Mode::Optional => {
            let read = read_key(headers, Policy::DEFAULT.header, mode == Mode::Optional);
            KeySource::Read(read.map_err(|problem| {
                refuse(problem, idempotency.as_ref(), &label(request.method(), route.as_ref()).into())
            })?)
        }
    };
    let credentials = match &idempotency {
        Some(idempotency) if !matches!(key, KeySource::Ignored) => idempotency.credentials(headers),
        _ => Vec::new(),
    };
    Ok(Box::new(Head {
        method: request.method().clone(),
        uri,
        route,
        content_type: headers.get(CONTENT_TYPE).cloned(),
        credentials,
        key,
        body: Bytes::new(),
        idempotency,
        attempt: attempt::cell(request.extensions_mut()),
        scope: None,
        given: None,
    }))
}

/// Methods that change nothing (RFC 9110 §9.2.1) pass through unrecorded.
pub(super) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

/// The key in the header `name`.
pub(super) fn read_key(headers: &HeaderMap, name: &'static str, optional: bool) -> Result<Option<Key>, Problem> {
    match key::read(headers, name) {
        Ok(None) if !optional => Err(KeyMissing { header: Some(name) }.into()),
        Ok(key) => Ok(key),
        Err(invalid) => Err(KeyInvalid { header: Some(name), reason: invalid.reason() }.into()),
    }
}

/// Answers with a problem of the key, and counts it.
pub(super) fn refuse(problem: Problem, idempotency: Option<&Idempotency>, label: &Arc<str>) -> Response {
    let outcome = if matches!(problem, Problem::KeyMissing(_)) { Outcome::KeyMissing } else { Outcome::KeyInvalid };
    telemetry::outcome(outcome, label, None);
    problem.respond(idempotency.map_or(Idempotency::PROBLEM_BASE, Idempotency::problem_base))
}

/// The operation's name where the policy gives none: method and route template, or the path where no route matched.
pub(super) fn operation_name(method: &Method, route: Option<&MatchedPath>, uri: &Uri) -> String {
    name(method.as_str(), route.map_or_else(|| uri.path(), MatchedPath::as_str))
}

/// What metrics and events call an operation without a name of its own. Any path may reach a fallback and any method an
/// `any` route, so these are left out: labels must stay few, and a path may hold a secret.
pub(super) fn label(method: &Method, route: Option<&MatchedPath>) -> String {
    let method = if matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE) {
        method.as_str()
    } else {
        "OTHER"
    };
    name(method, route.map_or("(no route)", MatchedPath::as_str))
}

fn name(method: &str, route: &str) -> String {
    let mut name = String::with_capacity(method.len() + 1 + route.len());
    name.extend([method, " ", route]);
    name
}
