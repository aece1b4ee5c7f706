//! The tower door: guards whatever stands below it.

mod options;
mod service;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU8},
};

use http::{Method, request::Parts};

pub use self::{options::LayerPolicy, service::Guarded};
use super::extract::Value;
use crate::{Idempotency, policy::Policy};

/// Reads a key or a scope from a request's head.
type Read = Box<dyn Fn(&Parts) -> Value + Send + Sync>;

/// What a layer says to all of its services.
struct Config {
    idempotency: Idempotency,
    policy: Policy,
    /// The same, for services whose duplicates may meet a claim that is about to be handed over.
    patient: Policy,
    key: Option<Read>,
    scope: Option<Read>,
    methods: Vec<Method>,
}

/// Guards whatever stands below it: closures, third-party routers, every mutating route. Made by
/// [`Idempotency::layer`], whose docs say where it must stand.
#[derive(Clone)]
pub struct IdempotencyLayer {
    config: Arc<Config>,
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("idempotency", &self.config.idempotency)
            .field("policy", &self.config.policy)
            .field("methods", &self.config.methods)
            .finish_non_exhaustive()
    }
}

impl<S> tower_layer::Layer<S> for IdempotencyLayer {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, config: Arc::clone(&self.config), below: Arc::new(AtomicU8::new(service::UNSEEN)) }
    }
}

impl Idempotency {
    /// A tower layer that guards everything below it, by one policy: for closures, third-party routers, and "every
    /// mutating route".
    ///
    /// ```
    /// use axum::{Router, routing::post};
    /// use idem_runtime::{Idempotency, Policy, store::MemoryStore};
    ///
    /// #[derive(Clone)]
    /// struct User { tenant: u64 } // an authentication layer outside puts it into the request's extensions
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let policy = Policy::ttl("24h").scope(|head| head.extensions.get::<User>().map(|user| user.tenant));
    /// let app: Router = Router::new().route("/orders", post(|| async { "ordered" })).layer(idempotency.layer(policy));
    /// ```
    ///
    /// POST and PATCH are guarded unless [`LayerPolicy::methods`] says otherwise; others pass through. Guarded requests
    /// are read whole before anything is claimed, within the router's `DefaultBodyLimit` (2 MB unless set outside; 413).
    /// The service below runs detached from the connection, from where it first waits in a task of its own. What it answers is kept by the policy;
    /// an error of the service is never kept.
    ///
    /// # Where it stands
    ///
    /// *Inside* authentication, rate limits of requests, `DefaultBodyLimit`, compression, CORS and request ids: `.layer` calls that come after
    /// this one are outside of it. What is outside runs on every request, replays included; what is inside doesn't run on a
    /// replay; a quota that is to count runs and let retries have their answers goes inside. A layer that authenticates **inside** of this one doesn't see a replay: anybody who repeats the request gets
    /// its answer. On a `Router` an operation is the method and the route; around other services it is the method and the path.
    ///
    /// # The attribute is stronger
    ///
    /// The handler's extractors run below the layer, so they don't run on a replay: authentication, signature checks and
    /// validation that are extractors are bypassed by it. With the attribute they run on every request. A scope and a key
    /// that are in the body can't be read by a layer either.
    ///
    /// # Annotated handlers below
    ///
    /// They guard themselves: the layer lets go of its claim before such a handler makes its own, and keeps nothing of
    /// its answer, so that there is one record, by the handler's policy. One that doesn't guard a request, since it is `optional`
    /// and has no key, is guarded by the layer. Until the handler claims (while its extractors run) the layer's claim stands: a
    /// request without the layer's key is refused, a duplicate waits for a second at least, and what the extractors before the
    /// last one refuse is kept by the layer's policy. Middleware and handlers that stand **between** the layer and such a handler
    /// run on every request, as its extractors do: what they do must bear that. It costs a claim and a release more on each
    /// request, replays included, so let a router that has only annotated handlers do without the layer.
    ///
    /// The layer's operations begin with `layer `, in events and for [`forget`](Self::forget): `"layer POST /orders"`.
    ///
    /// # Panics
    ///
    /// If an option can't be used, with the attribute's own messages: this stops the start-up, not a request.
    #[track_caller]
    pub fn layer(&self, policy: LayerPolicy) -> IdempotencyLayer {
        IdempotencyLayer { config: Arc::new(policy.build(self.clone())) }
    }
}
