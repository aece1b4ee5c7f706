use std::borrow::Cow;

use http::HeaderMap;
use serde::Deserialize;

use crate::webhooks::{
    problem::{EventIdMissing, WebhookProblem},
    scheme::{Claimed, Delivery, Encoding, Scheme, json, malformed, required, timestamp},
};

/// Slack's Events API: `X-Slack-Signature: v0=…` over `v0:timestamp:body`, with the app's signing secret.
///
/// The id is the body's `event_id` (`Ev…`). An `app_rate_limited` notice has none: it is known by its team and minute.
/// The `url_verification` handshake is answered by the extractor itself, with its challenge, once its signature is
/// found right; nothing runs and nothing is claimed. Retries go on for 6 minutes, or for a day in delayed mode: `retry_window = slack`.
#[derive(Debug)]
pub enum Slack {}

impl Scheme for Slack {
    const NAME: &'static str = "Slack";
    type Context = ();

    fn claimed<'a>(headers: &'a HeaderMap, (): &'a ()) -> Result<Claimed<'a>, WebhookProblem> {
        let signature = required(headers, "x-slack-signature")?
            .strip_prefix("v0=")
            .ok_or_else(|| malformed("`X-Slack-Signature` does not begin with `v0=`"))?;
        let at = required(headers, "x-slack-request-timestamp")?;
        Ok(Claimed {
            before: Cow::Owned([b"v0:", at.as_bytes(), b":"].concat()),
            signatures: vec![signature.as_bytes()],
            encoding: Encoding::Hex,
            at: Some(timestamp(at)?),
        })
    }

    fn delivery(_: &HeaderMap, body: &[u8]) -> Result<Delivery, WebhookProblem> {
        #[derive(Deserialize)]
        struct Payload {
            r#type: Option<String>,
            #[serde(rename = "event_id")]
            id: Option<String>,
            challenge: Option<String>,
            team_id: Option<String>,
            minute_rate_limited: Option<u64>,
        }
        let event: Payload = json(body)?;
        match (event.r#type.as_deref(), event.id) {
            (Some("url_verification"), _) if event.challenge.is_some() => {
                Ok(Delivery::Handshake(event.challenge.unwrap_or_default()))
            }
            (_, Some(id)) if !id.is_empty() => Ok(Delivery::Event(id)),
            (Some(kind @ "app_rate_limited"), _) => {
                let (team, minute) = (event.team_id.unwrap_or_default(), event.minute_rate_limited.unwrap_or_default());
                Ok(Delivery::Event(format!("{kind}:{team}:{minute}")))
            }
            _ => Err(EventIdMissing { place: "the body's `event_id`" }.into()),
        }
    }
}
