use std::borrow::Cow;

use http::HeaderMap;
use serde::Deserialize;

use crate::webhooks::{
    problem::{EventIdMissing, WebhookProblem},
    scheme::{Claimed, Delivery, Encoding, Scheme, json, malformed, required, timestamp},
};

/// Stripe: `Stripe-Signature: t=…,v1=…` over `t.body`, a new one for each attempt.
///
/// The id is the body's `id` (`evt_…`), the secret the endpoint's `whsec_…` as it stands. Of several `v1`, one has to be
/// right; other versions are ignored. Retries go on for 3 days: `#[idempotent(ttl = "90h", retry_window = stripe, …)]`.
#[derive(Debug)]
pub enum Stripe {}

impl Scheme for Stripe {
    const NAME: &'static str = "Stripe";
    type Context = ();

    fn claimed<'a>(headers: &'a HeaderMap, (): &'a ()) -> Result<Claimed<'a>, WebhookProblem> {
        let (mut at, mut signatures) = (None, Vec::new());
        for item in required(headers, "stripe-signature")?.split(',') {
            match item.trim().split_once('=') {
                Some(("t", _)) if at.is_some() => return Err(malformed("`Stripe-Signature` has two timestamps")),
                Some(("t", text)) => at = Some(text),
                Some(("v1", signature)) => signatures.push(signature.as_bytes()),
                Some(_) => {}
                None => return Err(malformed("`Stripe-Signature` is not a list of `name=value`")),
            }
        }
        let at = at.ok_or_else(|| malformed("`Stripe-Signature` has no timestamp"))?;
        if signatures.is_empty() {
            return Err(malformed("`Stripe-Signature` has no `v1`"));
        }
        let before = Cow::Owned([at.as_bytes(), b"."].concat());
        Ok(Claimed { before, signatures, encoding: Encoding::Hex, at: Some(timestamp(at)?) })
    }

    fn delivery(_: &HeaderMap, body: &[u8]) -> Result<Delivery, WebhookProblem> {
        #[derive(Deserialize)]
        struct Event {
            id: Option<String>,
        }
        let id = json::<Event>(body)?.id.filter(|id| !id.is_empty());
        id.map(Delivery::Event).ok_or_else(|| EventIdMissing { place: "the body's `id`" }.into())
    }
}
