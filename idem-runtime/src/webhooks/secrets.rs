//! A sender's secrets, and the check itself.

use std::{
    fmt,
    marker::PhantomData,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::HeaderMap;
use serde::de::DeserializeOwned;
use subtle::Choice;

use super::{
    Sender, Square, Webhook, WebhookProblem, WebhookRejection,
    problem::Stale,
    scheme::{Delivery, Secret, json, malformed},
};

/// The secrets that sign the deliveries of the sender `V`: one, or several while one replaces another.
///
/// They stand in the router's state, or come by [`ProvidesSecrets`](super::ProvidesSecrets). Cheap to clone; no secret is in
/// its `Debug`.
///
/// ```
/// use idem_runtime::webhooks::{Stripe, WebhookSecrets};
///
/// let secrets = WebhookSecrets::<Stripe>::new(["whsec_the_new_one", "whsec_the_old_one"])?;
/// # Ok::<(), idem_runtime::webhooks::SecretError>(())
/// ```
pub struct WebhookSecrets<V: Sender> {
    secrets: Arc<[Secret]>,
    context: V::Context,
    tolerance: Duration,
    sender: PhantomData<fn() -> V>,
}

impl<V: Sender<Context = ()>> WebhookSecrets<V> {
    /// Takes the secrets as the sender shows them; each of them is accepted.
    pub fn new<I>(secrets: I) -> Result<Self, SecretError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Self::with_context(secrets, ())
    }
}

impl WebhookSecrets<Square> {
    /// Takes the notification URL, exactly as it is registered with Square (it is part of what is signed), and the secrets.
    pub fn for_url<I>(url: impl Into<Arc<str>>, secrets: I) -> Result<Self, SecretError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Self::with_context(secrets, url.into())
    }
}

impl<V: Sender> WebhookSecrets<V> {
    /// How far a signature's timestamp may be from now, either way, where the sender signs one: 5 minutes unless set.
    pub const TOLERANCE: Duration = Duration::from_mins(5);

    fn with_context<I>(secrets: I, context: V::Context) -> Result<Self, SecretError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let secrets: Arc<[Secret]> =
            secrets.into_iter().map(|text| secret::<V>(text.as_ref())).collect::<Result<_, _>>()?;
        if secrets.is_empty() {
            return Err(SecretError::NoneGiven);
        }
        Ok(Self { secrets, context, tolerance: Self::TOLERANCE, sender: PhantomData })
    }

    /// Sets how far a signature's timestamp may be from now, either way; exactly that far is still accepted. A repeated
    /// delivery within it is stopped by its id alone.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Says whether the sender signed exactly these bytes, at a time within the tolerance of `now`. Needs no server and no clock.
    ///
    /// Every secret is tried against every signature, in a time that doesn't depend on which is right. The timestamp is
    /// believed only once the signature is.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8], now: SystemTime) -> Result<(), WebhookProblem> {
        let claimed = V::claimed(headers, &self.context)?;
        let found = self.secrets.iter().fold(Choice::from(0), |found, secret| found | secret.signed(&claimed, body));
        if !bool::from(found) {
            return Err(malformed("No secret of ours makes this signature of these bytes"));
        }
        let away = claimed.at.map(|at| now.duration_since(at).unwrap_or_else(|early| early.duration()));
        if away.is_some_and(|away| away > self.tolerance) {
            return Err(Stale {}.into());
        }
        Ok(())
    }

    /// Verifies a delivery like [`verify`](Self::verify), and then reads it: what the extractor does, without axum.
    pub fn open<T: DeserializeOwned>(
        &self,
        headers: &HeaderMap,
        body: Bytes,
        now: SystemTime,
    ) -> Result<Webhook<V, T>, WebhookRejection> {
        self.verify(headers, &body, now)?;
        match V::delivery(headers, &body)? {
            Delivery::Event(id) => Ok(Webhook::new(id, json(&body)?, body)),
            Delivery::Handshake(challenge) => Err(WebhookRejection::Handshake(challenge)),
        }
    }
}

fn secret<V: Sender>(text: &str) -> Result<Secret, SecretError> {
    if text.ends_with(['\n', '\r']) {
        return Err(SecretError::LineBreak);
    }
    Secret::new(&V::secret(text)?)
}

impl<V: Sender> Clone for WebhookSecrets<V> {
    fn clone(&self) -> Self {
        let (secrets, context) = (Arc::clone(&self.secrets), self.context.clone());
        Self { secrets, context, tolerance: self.tolerance, sender: PhantomData }
    }
}

impl<V: Sender> fmt::Debug for WebhookSecrets<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSecrets")
            .field("sender", &V::NAME)
            .field("secrets", &self.secrets.len())
            .field("tolerance", &self.tolerance)
            .finish_non_exhaustive()
    }
}

/// Why a text is no secret. Says nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretError {
    /// No secret was given at all.
    NoneGiven,
    /// It is empty: everybody could sign with it.
    Empty,
    /// It ends with a line break, as when it is read from a file: no sender's does.
    LineBreak,
    /// It isn't `whsec_` and Base64.
    NotBase64,
    /// It is a key of Standard Webhooks' asymmetric scheme (`whsk_`, `whpk_`), which isn't supported.
    Asymmetric,
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoneGiven => "no webhook secret is given",
            Self::Empty => "a webhook secret is empty",
            Self::LineBreak => "a webhook secret ends with a line break: trim what was read from a file",
            Self::NotBase64 => "a webhook secret is not Base64 after its `whsec_`",
            Self::Asymmetric => {
                "a webhook key of the asymmetric scheme (`whsk_`, `whpk_`) is not supported: use a `whsec_` secret"
            }
        })
    }
}

impl std::error::Error for SecretError {}
