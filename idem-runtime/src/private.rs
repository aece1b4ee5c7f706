//! All that generated code may call. Not for people: it changes without notice.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use axum::response::Response;
use pin_project_lite::pin_project;

use crate::{
    KeyPart,
    http::{Answering, Recordable, guard},
};
pub use crate::{
    http::{
        Expression, Head, InLayer, InState, Incoming, NeedsIdempotency, Optional, OtherHeader, Required, Skipped,
        last_of, part_of, supplied_by_layer, supply, then,
    },
    policy::{BodyFingerprint, Members, Outage, Policy, Record, Unknown},
};

/// What an annotated handler returns: a future of the response.
pub struct IdemFuture(Answering);

impl IdemFuture {
    pub(crate) fn new(future: impl Future<Output = Response> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }
}

impl Future for IdemFuture {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for IdemFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdemFuture").finish_non_exhaustive()
    }
}

/// The handler's own future, its type erased so that a non-`Send` one is reported once.
pub struct HandlerFuture<R>(Pin<Box<dyn Handling<R>>>);

/// A handler's future that can become one of the response in the box that it is in.
trait Handling<R>: Send {
    fn answering(self: Pin<Box<Self>>) -> Answering
    where
        R: Recordable;
}

pin_project! {
    struct Handler<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future<Output = R> + Send + 'static, R> Handling<R> for Handler<F> {
    fn answering(self: Pin<Box<Self>>) -> Answering
    where
        R: Recordable,
    {
        self
    }
}

impl<F: Future<Output: Recordable>> Future for Handler<F> {
    type Output = Response;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        self.project().future.poll(context).map(Recordable::answer)
    }
}

impl<R> fmt::Debug for HandlerFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerFuture").finish_non_exhaustive()
    }
}

/// Erases the handler's future; here `Send` is asked for.
pub fn send<F, R>(future: F) -> HandlerFuture<R>
where
    F: Future<Output = R> + Send + 'static,
{
    HandlerFuture(Box::pin(Handler { future }))
}

/// Reads a `scope` expression.
pub fn scoped<T: KeyPart + ?Sized>(head: &mut Head, scope: &T) {
    head.scope(|| value(scope));
}

/// Reads a `key` expression.
pub fn keyed<T: KeyPart + ?Sized>(head: &mut Head, key: &T) {
    head.key(|| value(key));
}

/// Reads both.
pub fn scoped_and_keyed<S: KeyPart + ?Sized, K: KeyPart + ?Sized>(head: &mut Head, scope: &S, key: &K) {
    scoped(head, scope);
    keyed(head, key);
}

fn value<T: KeyPart + ?Sized>(part: &T) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    part.append(&mut bytes).then_some(bytes)
}

/// Whether a parameter's type is a handler's transaction: [`COUNT`](Self::COUNT) is 1 for that, and else
/// [`NotATransaction`]'s.
#[derive(Debug)]
pub struct Transactions<T>(PhantomData<fn() -> T>);

#[cfg(feature = "postgres")]
impl Transactions<crate::store::postgres::Tx> {
    /// It is one.
    pub const COUNT: usize = 1;
}

/// Every other type.
pub trait NotATransaction {
    /// It is none.
    const COUNT: usize = 0;
}

impl<T> NotATransaction for Transactions<T> {}

/// Says that an expression came to its end.
#[derive(Debug)]
pub struct Read;

/// Evaluates an expression, so that nothing in it can leave the wrapper.
pub fn inside(expression: impl FnOnce() -> Read) {
    let Read = expression();
}

/// Guards one call of a handler.
pub fn run<R: Recordable>(handler: HandlerFuture<R>, head: Head, policy: Policy) -> IdemFuture {
    IdemFuture(guard(policy, head, handler.0.answering()))
}
