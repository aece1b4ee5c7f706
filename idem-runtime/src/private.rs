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

pin_project! {
    /// The handler's own future as one of the response, in the box that it is in.
    struct Handler<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future<Output: Recordable>> Future for Handler<F> {
    type Output = Response;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        self.project().future.poll(context).map(Recordable::answer)
    }
}

/// Reads a `scope` expression.
pub fn scoped<T: KeyPart + ?Sized>(mut head: Head, scope: &T) -> Head {
    head.scope(|| value(scope));
    head
}

/// Reads a `key` expression.
pub fn keyed<T: KeyPart + ?Sized>(mut head: Head, key: &T) -> Head {
    head.key(|| value(key));
    head
}

/// Reads both.
pub fn scoped_and_keyed<S: KeyPart + ?Sized, K: KeyPart + ?Sized>(head: Head, scope: &S, key: &K) -> Head {
    keyed(scoped(head, scope), key)
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

/// Evaluates an expression, so that nothing in it can leave the wrapper.
pub fn inside(expression: impl FnOnce() -> Head) -> Head {
    expression()
}

/// Guards one call of a handler whose options are at their defaults.
pub fn run<F, R>(handler: F, head: Head, module: &'static str, name: &'static str, ttl_ms: u64) -> IdemFuture
where
    F: Future<Output = R> + Send + 'static,
    R: Recordable,
{
    run_by(handler, head, Policy::new(module, name, ttl_ms))
}

/// Guards one call of a handler.
pub fn run_by<F, R>(handler: F, head: Head, policy: Policy) -> IdemFuture
where
    F: Future<Output = R> + Send + 'static,
    R: Recordable,
{
    IdemFuture(guard(policy, head, Box::pin(Handler { future: handler })))
}
