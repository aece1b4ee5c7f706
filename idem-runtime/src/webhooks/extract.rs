//! The extractor, and where it finds the secrets.

use std::{fmt, marker::PhantomData, mem, sync::Arc, time::SystemTime};

use axum::extract::{FromRef, FromRequest, Request};
use bytes::Bytes;
use http::Extensions;
use serde::de::DeserializeOwned;

use super::{Sender, WebhookRejection, WebhookSecrets, problem::SecretsNotInstalled};

/// A delivery that the sender `V` signed, with the payload `T` from its JSON body.
///
/// As the last argument of a handler it verifies the signature over the exact bytes before anything is claimed, on every
/// delivery, repeated ones included. `Result<Webhook<V>, WebhookRejection>` lets the handler see what was refused.
pub struct Webhook<V, T = serde_json::Value> {
    id: String,
    payload: T,
    body: Bytes,
    sender: PhantomData<fn() -> V>,
}

impl<V, T> Webhook<V, T> {
    pub(super) fn new(id: String, payload: T, body: Bytes) -> Self {
        Self { id, payload, body, sender: PhantomData }
    }

    /// What a repeated delivery of the same event is known by: `key = event.id()`. Never empty. Each sender's docs say where
    /// it comes from.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The payload.
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// The payload, by value.
    pub fn into_payload(self) -> T {
        self.payload
    }

    /// The body's bytes as they were signed.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

impl<V: Sender, T> fmt::Debug for Webhook<V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("sender", &V::NAME).field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

impl<S, V, T> FromRequest<S> for Webhook<V, T>
where
    S: ProvidesSecrets<V> + Send + Sync,
    V: Sender,
    T: DeserializeOwned,
{
    type Rejection = WebhookRejection;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, WebhookRejection> {
        let Some(secrets) = state.secrets(request.extensions()) else {
            let problem = SecretsNotInstalled { sender: V::NAME };
            tracing::error!(target: "idem", "{problem}");
            return Err(problem.into());
        };
        let headers = mem::take(request.headers_mut());
        // Axum's own `Bytes` keeps to the router's limit.
        let body = Bytes::from_request(request, state).await.map_err(WebhookRejection::Body)?;
        secrets.open(&headers, body, SystemTime::now())
    }
}

/// A router state from which [`Webhook`] gets its secrets: one that derives `FromRef` with a `WebhookSecrets<V>` field, or
/// an `Arc` of such a state. Below a router without state they come from `.layer(Extension(secrets))`; without that layer
/// the answer is 500 [`SecretsNotInstalled`].
#[diagnostic::on_unimplemented(
    message = "the router state `{Self}` holds no `WebhookSecrets<{V}>`",
    label = "`Webhook<{V}>` finds no secrets in `{Self}`",
    note = "add a field of type `WebhookSecrets<{V}>` to the state, and `#[derive(FromRef)]`"
)]
pub trait ProvidesSecrets<V: Sender> {
    /// The secrets, or nothing where the layer that should bring them is missing.
    fn secrets(&self, extensions: &Extensions) -> Option<WebhookSecrets<V>>;
}

impl<S, V: Sender> ProvidesSecrets<V> for S
where
    WebhookSecrets<V>: FromRef<S>,
{
    fn secrets(&self, _: &Extensions) -> Option<WebhookSecrets<V>> {
        Some(WebhookSecrets::from_ref(self))
    }
}

impl<S, V: Sender> ProvidesSecrets<V> for Arc<S>
where
    WebhookSecrets<V>: FromRef<S>,
{
    fn secrets(&self, _: &Extensions) -> Option<WebhookSecrets<V>> {
        Some(WebhookSecrets::from_ref(self.as_ref()))
    }
}

impl<V: Sender> ProvidesSecrets<V> for () {
    fn secrets(&self, extensions: &Extensions) -> Option<WebhookSecrets<V>> {
        extensions.get().cloned()
    }
}
