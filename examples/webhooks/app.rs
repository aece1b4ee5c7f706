//! The routes, their secrets and what they do.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    Json, Router,
    extract::{FromRef, State},
    http::StatusCode,
    routing::{get, post},
};
use idem_runtime::{
    Idempotency, idempotent,
    store::MemoryStore,
    webhooks::{GitHub, SecretError, Shopify, Slack, Square, StandardWebhooks, Stripe, Webhook, WebhookSecrets},
};
use serde::Deserialize;

/// The events that were handled, each by its sender and id.
#[derive(Clone, Default)]
struct Handled(Arc<Mutex<Vec<String>>>);

impl Handled {
    fn add(&self, sender: &str, id: &str) -> StatusCode {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{sender} {id}"));
        StatusCode::ACCEPTED
    }
}

#[derive(Clone, FromRef)]
struct App {
    handled: Handled,
    idempotency: Idempotency,
    stripe: WebhookSecrets<Stripe>,
    github: WebhookSecrets<GitHub>,
    shopify: WebhookSecrets<Shopify>,
    slack: WebhookSecrets<Slack>,
    standard: WebhookSecrets<StandardWebhooks>,
    square: WebhookSecrets<Square>,
}

/// What this application reads of Stripe's events.
#[derive(Deserialize)]
struct StripeEvent {
    r#type: String,
}

#[idempotent(ttl = "90h", key = event.id(), fingerprint = none, retry_window = stripe)]
async fn stripe(State(handled): State<Handled>, event: Webhook<Stripe, StripeEvent>) -> StatusCode {
    tracing::info!("Stripe says {}", event.payload().r#type);
    handled.add("stripe", event.id())
}

#[idempotent(ttl = "90h", key = event.id(), fingerprint = none, retry_window = github)]
async fn github(State(handled): State<Handled>, event: Webhook<GitHub>) -> StatusCode {
    handled.add("github", event.id())
}

#[idempotent(ttl = "24h", key = event.id(), fingerprint = none, retry_window = shopify)]
async fn shopify(State(handled): State<Handled>, event: Webhook<Shopify>) -> StatusCode {
    handled.add("shopify", event.id())
}

#[idempotent(ttl = "30h", key = event.id(), fingerprint = none, retry_window = slack)]
async fn slack(State(handled): State<Handled>, event: Webhook<Slack>) -> StatusCode {
    handled.add("slack", event.id())
}

#[idempotent(ttl = "95h", key = event.id(), fingerprint = none, retry_window = standard_webhooks)]
async fn standard(State(handled): State<Handled>, event: Webhook<StandardWebhooks>) -> StatusCode {
    handled.add("standard", event.id())
}

#[idempotent(ttl = "30h", key = event.id(), fingerprint = none, retry_window = square)]
async fn square(State(handled): State<Handled>, event: Webhook<Square>) -> StatusCode {
    handled.add("square", event.id())
}

async fn handled(State(handled): State<Handled>) -> Json<Vec<String>> {
    Json(handled.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

/// The routes. `setting` gives secrets by name; those it doesn't know are the ones that the script signs with.
pub(crate) fn router(setting: &dyn Fn(&str) -> Option<String>) -> Result<Router, SecretError> {
    let secrets = |name: &str, example: &str| {
        let texts = setting(name).unwrap_or_else(|| example.into());
        texts.split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    let url = setting("SQUARE_URL").unwrap_or_else(|| "https://example.com/square".into());
    let app = App {
        handled: Handled::default(),
        idempotency: Idempotency::new(MemoryStore::new()),
        stripe: WebhookSecrets::new(secrets("STRIPE_SECRET", "whsec_example"))?,
        github: WebhookSecrets::new(secrets("GITHUB_SECRET", "example"))?,
        shopify: WebhookSecrets::new(secrets("SHOPIFY_SECRET", "example"))?,
        slack: WebhookSecrets::new(secrets("SLACK_SECRET", "example"))?,
        standard: WebhookSecrets::new(secrets("STANDARD_SECRET", "whsec_ZXhhbXBsZQ=="))?,
        square: WebhookSecrets::for_url(url, secrets("SQUARE_SECRET", "example"))?,
    };
    Ok(Router::new()
        .route("/stripe", post(stripe))
        .route("/github", post(github))
        .route("/shopify", post(shopify))
        .route("/slack", post(slack))
        .route("/standard", post(standard))
        .route("/square", post(square))
        .route("/handled", get(handled))
        .with_state(app))
}
