use std::{borrow::Cow, sync::Arc};

use http::HeaderMap;
use serde::Deserialize;

use crate::webhooks::{
    problem::{EventIdMissing, WebhookProblem},
    scheme::{Claimed, Delivery, Encoding, Scheme, json, required},
};

/// Square: `x-square-hmacsha256-signature` over the notification URL and the body.
///
/// The id is the body's `event_id`. Square signs no time. The URL is the one registered with Square, not what a proxy makes of
/// it: [`WebhookSecrets::for_url`](crate::webhooks::WebhookSecrets::for_url). Retries go on for 24 hours: `retry_window = square`.
#[derive(Debug)]
pub enum Square {}

impl Scheme for Square {
    const NAME: &'static str = "Square";
    type Context = Arc<str>;

    fn claimed<'a>(headers: &'a HeaderMap, url: &'a Arc<str>) -> Result<Claimed<'a>, WebhookProblem> {
        let signature = required(headers, "x-square-hmacsha256-signature")?;
        Ok(Claimed {
            before: Cow::Borrowed(url.as_bytes()),
            signatures: vec![signature.as_bytes()],
            encoding: Encoding::Base64,
            at: None,
        })
    }

    fn delivery(_: &HeaderMap, body: &[u8]) -> Result<Delivery, WebhookProblem> {
        #[derive(Deserialize)]
        struct Event {
            #[serde(rename = "event_id")]
            id: Option<String>,
        }
        let id = json::<Event>(body)?.id.filter(|id| !id.is_empty());
        id.map(Delivery::Event).ok_or_else(|| EventIdMissing { place: "the body's `event_id`" }.into())
    }
}
