//! The wrapper's last parameter: keeps what idempotency needs of a request and hands the rest on.

use std::{fmt, marker::PhantomData, sync::Arc};

use axum::{
    extract::{FromRequest, MatchedPath, OriginalUri, Request},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri,
    header::{AsHeaderName, CONTENT_TYPE},
};

use super::{
    attempt, body,
    handover::{self, Offer},
    key::{self, Key},
    problem::{KeyInvalid, KeyMissing, Problem},
    provide::{Provides, Via, ViaLayer},
};
use crate::{
    Idempotency,
    engine::AttemptCell,
    policy::Policy,
    telemetry::{self, Operation, Outcome},
};

/// What is kept of the request beside the handler's own arguments.
pub enum Head {
    /// There is nothing to record.
    Free(Free),
    /// In a box: it goes through the future of every step of a request.
    Guarded(Box<Guarded>),
}

/// A request that is not guarded.
#[derive(Debug)]
pub struct Free {
    /// `None` where the layer that should bring it is missing.
    pub(super) idempotency: Option<Idempotency>,
    pub(super) why: Why,
    pub(super) attempt: Option<Arc<AttemptCell>>,
}

/// Why a request is not guarded.
#[derive(Debug)]
pub(super) enum Why {
    /// The method is safe, or nothing is there that could guard.
    Ignored,
    /// It needs no key and has none.
    NoKey(Method, Option<MatchedPath>),
}

impl fmt::Debug for Head {
    /// Shows nothing of what the request holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free(_) => "Free",
            Self::Guarded(_) => "Guarded",
        })
    }
}

/// A request that is guarded.
#[expect(missing_debug_implementations, reason = "it holds the request's credentials and body")]
pub struct Guarded {
    pub(super) method: Method,
    /// As the client sent it; nesting strips the request's own.
    pub(super) uri: Uri,
    pub(super) route: Option<MatchedPath>,
    pub(super) content_type: Option<HeaderValue>,
    pub(super) credentials: Vec<(HeaderName, HeaderValue)>,
    pub(super) key: KeySource,
    pub(super) body: Bytes,
    pub(super) idempotency: Idempotency,
    /// Where somebody asks for it.
    pub(super) attempt: Option<Arc<AttemptCell>>,
    /// The claim of a layer above, which stands until this request makes its own.
    pub(super) offer: Option<Offer>,
    /// What the `scope` expression gave.
    pub(super) scope: Option<Value>,
    /// What the `key` expression gave.
    pub(super) given: Option<Value>,
}

impl Head {
    /// Keeps what the `scope` expression gives.
    pub(crate) fn scope(&mut self, value: impl FnOnce() -> Value) {
        if let Self::Guarded(head) = self {
            head.scope = Some(value());
        }
    }

    /// Keeps what the `key` expression gives.
    pub(crate) fn key(&mut self, value: impl FnOnce() -> Value) {
        if let Self::Guarded(head) = self {
            head.given = Some(value());
        }
    }
}

/// What a `key` or `scope` expression gave: `None` where an `Option` in it is empty.
pub(crate) type Value = Option<Vec<u8>>;

/// What the request's head says of the key.
pub(super) enum KeySource {
    /// It was read from `Idempotency-Key`.
    Read(Key),
    /// It is in a header of the policy's own name.
    Headers(HeaderMap),
    /// It is in the handler's parameters.
    Expression,
}

/// The handler's last argument `E`, with what idempotency needs of the request.
///
/// Its name is in axum's error where a router's state holds no [`Idempotency`]: the handler needs one.
/// `O` says where the handle and the key come from.
pub struct NeedsIdempotency<E, O = InState<Required>> {
    // The wrapper takes both fields apart.
    #[doc(hidden)]
    pub head: Head,
    #[doc(hidden)]
    pub last: E,
    mode: PhantomData<fn() -> O>,
}

impl<E, O> fmt::Debug for NeedsIdempotency<E, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NeedsIdempotency").field("head", &self.head).finish_non_exhaustive()
    }
}

impl<E, O> NeedsIdempotency<E, O> {
    /// Lets `E` have the request as it was.
    fn take<S, M>(
        mut request: Request,
        state: &S,
        idempotency: Option<Idempotency>,
        mode: Mode,
    ) -> impl Future<Output = Result<Self, Response>> + Send
    where
        S: Sync,
        E: FromRequest<S, M> + Send,
    {
        let offer = handover::offered(request.extensions_mut());
        let attempt = attempt::cell_for::<E>(request.extensions_mut());
        let head = capture(&request, idempotency, mode, attempt);
        async move {
            let taken = async {
                let mut head = head?;
                if let Head::Guarded(head) = &mut head {
                    head.body = body::read(&mut request).await?;
                }
                let last = E::from_request(request, state).await.map_err(IntoResponse::into_response)?;
                Ok(Self { head, last, mode: PhantomData })
            };
            match taken.await {
                Ok(mut taken) => {
                    if let Head::Guarded(head) = &mut taken.head {
                        head.offer = offer;
                    }
                    Ok(taken)
                }
                Err(refusal) => {
                    // A refusal is not the layer's to keep.
                    if let Some(offer) = offer {
                        Box::pin(offer.take_up()).await;
                    }
                    Err(refusal)
                }
            }
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

/// Reads the key, then the body, for a layer; the request stays as it was. What runs below may ask for its attempt.
pub(super) async fn captured(
    request: &mut Request,
    idempotency: Option<Idempotency>,
    mode: Mode,
) -> Result<Head, Response> {
    let attempt = Some(attempt::cell(request.extensions_mut()));
    let mut head = capture(request, idempotency, mode, attempt)?;
    if let Head::Guarded(head) = &mut head {
        head.body = body::read(request).await?;
    }
    Ok(head)
}

/// Keeps what is needed of everything but the body.
#[expect(clippy::result_large_err, reason = "an answer, as extractors refuse with")]
fn capture(
    request: &Request,
    idempotency: Option<Idempotency>,
    mode: Mode,
    attempt: Option<Arc<AttemptCell>>,
) -> Result<Head, Response> {
    // Without the handle there is nothing to refuse by; the wrapper says what is missing.
    let idempotency = match idempotency {
        Some(idempotency) if !is_safe(request.method()) => idempotency,
        idempotency => return Ok(Head::Free(Free { idempotency, why: Why::Ignored, attempt })),
    };
    let headers = request.headers();
    let route = request.extensions().get::<MatchedPath>();
    let key = match mode {
        Mode::Expression => KeySource::Expression,
        Mode::OtherHeader => KeySource::Headers(headers.clone()),
        Mode::Required | Mode::Optional => {
            match read_key(headers, &KEY, Policy::DEFAULT.header, mode == Mode::Optional) {
                Ok(Some(key)) => KeySource::Read(key),
                Ok(None) => {
                    let why = Why::NoKey(request.method().clone(), route.cloned());
                    return Ok(Head::Free(Free { idempotency: Some(idempotency), why, attempt }));
                }
                Err(problem) => {
                    let operation = Operation::of_route("", request.method(), route);
                    return Err(refuse(problem, Some(&idempotency), &operation));
                }
            }
        }
    };
    let uri =
        request.extensions().get::<OriginalUri>().map_or_else(|| request.uri().clone(), |original| original.0.clone());
    Ok(Head::Guarded(Box::new(Guarded {
        method: request.method().clone(),
        uri,
        route: route.cloned(),
        content_type: headers.get(CONTENT_TYPE).cloned(),
        credentials: idempotency.credentials(headers),
        key,
        body: Bytes::new(),
        idempotency,
        attempt,
        offer: None,
        scope: None,
        given: None,
    })))
}

/// Methods that change nothing (RFC 9110 §9.2.1) pass through unrecorded.
pub(super) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

/// The usual header; hashing this name costs less than reading its text.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The key in the header `name`.
pub(super) fn read_key(
    headers: &HeaderMap,
    name: impl AsHeaderName,
    called: &'static str,
    optional: bool,
) -> Result<Option<Key>, Problem> {
    match key::read(headers, name) {
        Ok(None) if !optional => Err(KeyMissing { header: Some(called) }.into()),
        Ok(key) => Ok(key),
        Err(invalid) => Err(KeyInvalid { header: Some(called), reason: invalid.reason() }.into()),
    }
}

/// Answers with a problem of the key, and counts it.
pub(super) fn refuse(problem: Problem, idempotency: Option<&Idempotency>, operation: &Operation) -> Response {
    let outcome = if matches!(problem, Problem::KeyMissing(_)) { Outcome::KeyMissing } else { Outcome::KeyInvalid };
    telemetry::outcome(outcome, operation, None);
    problem.respond(idempotency.map_or(Idempotency::PROBLEM_BASE, Idempotency::problem_base))
}
