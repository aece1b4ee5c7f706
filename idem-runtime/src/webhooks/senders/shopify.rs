use std::borrow::Cow;

use http::HeaderMap;

use crate::webhooks::{
    problem::{EventIdMissing, WebhookProblem},
    scheme::{Claimed, Delivery, Encoding, Scheme, required, single},
};

/// Shopify: `X-Shopify-Hmac-Sha256` over the body, with the app's client secret.
///
/// The id is `X-Shopify-Event-Id`, or `X-Shopify-Webhook-Id` where there is none, behind `X-Shopify-Topic` and a colon: one event
/// may be told under several topics, and each has to be heard. **Shopify signs none of these headers and no time**: whoever
/// gets hold of a delivery can send it again under another id; TLS is what keeps it from others. Retries go on for 4 hours:
/// `retry_window = shopify`.
#[derive(Debug)]
pub enum Shopify {}

impl Scheme for Shopify {
    const NAME: &'static str = "Shopify";
    type Context = ();

    fn claimed<'a>(headers: &'a HeaderMap, (): &'a ()) -> Result<Claimed<'a>, WebhookProblem> {
        let signature = required(headers, "x-shopify-hmac-sha256")?;
        Ok(Claimed {
            before: Cow::Borrowed(b""),
            signatures: vec![signature.as_bytes()],
            encoding: Encoding::Base64,
            at: None,
        })
    }

    fn delivery(headers: &HeaderMap, _: &[u8]) -> Result<Delivery, WebhookProblem> {
        let there = |name| Ok::<_, WebhookProblem>(single(headers, name)?.filter(|value| !value.is_empty()));
        let id = match there("x-shopify-event-id")? {
            Some(id) => Some(id),
            None => there("x-shopify-webhook-id")?,
        };
        let id = id.ok_or(EventIdMissing { place: "the header `X-Shopify-Event-Id` or `X-Shopify-Webhook-Id`" })?;
        Ok(Delivery::Event(match there("x-shopify-topic")? {
            Some(topic) => format!("{topic}:{id}"),
            None => id.into(),
        }))
    }
}
