//! Webhooks: extractors that verify who sent a delivery, over the exact bytes and before anything is claimed.
//!
//! A sender retries until it gets a 2xx, so every delivery comes at least once and some come twice. Verify it, and let its id be
//! the key:
//!
//! ```
//! use axum::{Router, extract::FromRef, http::StatusCode, routing::post};
//! use idem_runtime::{Idempotency, idempotent, store::MemoryStore};
//! use idem_runtime::webhooks::{Stripe, Webhook, WebhookSecrets};
//!
//! #[derive(Clone, FromRef)]
//! struct App {
//!     idempotency: Idempotency,
//!     stripe: WebhookSecrets<Stripe>,
//! }
//!
//! #[derive(serde::Deserialize)]
//! struct Event {
//!     r#type: String,
//! }
//!
//! #[idempotent(ttl = "90h", key = event.id(), fingerprint = none, retry_window = stripe)]
//! async fn stripe(event: Webhook<Stripe, Event>) -> StatusCode {
//!     // This runs once per event, however often it is delivered.
//!     println!("{}", event.payload().r#type);
//!     StatusCode::NO_CONTENT
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let app = App {
//!     idempotency: Idempotency::new(MemoryStore::new()),
//!     // The new secret and the old one, while Stripe changes from one to the other.
//!     stripe: WebhookSecrets::new(["whsec_new", "whsec_old"])?,
//! };
//! let router: Router = Router::new().route("/stripe", post(stripe)).with_state(app);
//! # Ok(())
//! # }
//! ```
//!
//! | delivery | answer | |
//! |---|---|---|
//! | first | the handler's | a 5xx frees the id, and the sender's retry runs again |
//! | repeated, completed | the first answer | the handler doesn't run |
//! | repeated, still running | 409 with `Retry-After` | the sender comes again |
//! | unsigned, wrongly signed | 401 `webhook_signature_missing`, `webhook_signature_invalid` | nothing is claimed: the true delivery still runs |
//! | rightly signed, too old or too new | 400 `webhook_stale` | likewise |
//! | without an id, or not the JSON that is wanted | 400 `webhook_id_missing`, `webhook_payload_invalid` | likewise |
//! | a handshake | 200 with its challenge | likewise |
//!
//! A handler's own 4xx is kept and replayed like any answer: an event that should come again later wants a 5xx.
//!
//! Without axum, [`WebhookSecrets::verify`] checks headers and bytes at a time of your choice, and [`WebhookSecrets::open`] reads the event as well.

mod extract;
mod problem;
mod scheme;
mod secrets;
mod senders;
#[cfg(test)]
mod tests;

pub use extract::{ProvidesSecrets, Webhook};
pub use problem::{
    EventIdMissing, PayloadInvalid, SecretsNotInstalled, SignatureInvalid, SignatureMissing, Stale, WebhookProblem,
    WebhookRejection,
};
pub use secrets::{SecretError, WebhookSecrets};
pub use senders::{GitHub, Sender, Shopify, Slack, Square, StandardWebhooks, Stripe};
