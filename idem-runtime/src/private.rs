//! All that generated code may call. Not for people: it changes without notice.

use std::{future::Future, pin::Pin};

use axum::response::{IntoResponse, Response};

use crate::{KeyPart, http::guard};
pub use crate::{
    http::{
        Expression, Head, InLayer, InState, Incoming, NeedsIdempotency, Optional, OtherHeader, Required, Skipped,
        last_of, part_of, supply,
    },
    policy::{BodyFingerprint, Members, Outage, Policy, Record, Unknown},
};

/// What an annotated handler returns.
pub type IdemFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The handler's own future, its type erased so that a non-`Send` one is reported once.
pub type HandlerFuture<R> = Pin<Box<dyn Future<Output = R> + Send>>;

/// An answer that can be recorded.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a response",
    label = "an annotated handler's return type must implement `IntoResponse`",
    note = "see https://docs.rs/axum/0.8/axum/response/index.html for what can be returned"
)]
pub trait Answer: 'static {
    #[doc(hidden)]
    fn answer(self) -> Response;
}

#[diagnostic::do_not_recommend]
impl<R: IntoResponse + 'static> Answer for R {
    fn answer(self) -> Response {
        self.into_response()
    }
}

/// Parts the wrapper's last argument.
pub fn split<E, O>(captured: NeedsIdempotency<E, O>) -> (Head, E) {
    captured.split()
}

/// Erases the handler's future; here `Send` is asked for.
pub fn send<F, R>(future: F) -> HandlerFuture<R>
where
    F: Future<Output = R> + Send + 'static,
{
    Box::pin(future)
}

/// The value of a `key` or `scope` expression; `None` when an `Option` in it is empty.
#[derive(Debug)]
pub struct Part(Option<Vec<u8>>);

/// Reads a `key` or `scope` expression.
pub fn part<T: KeyPart + ?Sized>(value: &T) -> Part {
    let mut bytes = Vec::new();
    Part(value.append(&mut bytes).then_some(bytes))
}

/// Evaluates a `key` or `scope` expression, so that nothing in it can leave the wrapper.
pub fn call<T>(expression: impl FnOnce() -> T) -> T {
    expression()
}

/// Guards one call of a handler.
pub fn run<R: Answer>(
    policy: &'static Policy,
    head: Head,
    scope: Option<Part>,
    key: Option<Part>,
    handler: HandlerFuture<R>,
) -> IdemFuture {
    let handler = async move { handler.await.answer() };
    Box::pin(guard(policy, head, scope.map(|part| part.0), key.map(|part| part.0), handler))
}
