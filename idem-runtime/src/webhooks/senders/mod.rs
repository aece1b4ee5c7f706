//! Who sends webhooks, and how each of them signs.

mod github;
mod shopify;
mod slack;
mod square;
mod standard;
mod stripe;

pub use github::GitHub;
pub use shopify::Shopify;
pub use slack::Slack;
pub use square::Square;
pub use standard::StandardWebhooks;
pub use stripe::Stripe;

use super::scheme::Scheme;

/// A sender whose deliveries [`Webhook`](super::Webhook) verifies. Sealed: each new one is an addition to this crate.
pub trait Sender: Scheme {}

impl<V: Scheme> Sender for V {}
