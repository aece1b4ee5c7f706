use std::borrow::Cow;

use http::HeaderMap;

use crate::webhooks::{
    problem::{EventIdMissing, WebhookProblem},
    scheme::{Claimed, Delivery, Encoding, Scheme, malformed, required, single},
};

/// GitHub: `X-Hub-Signature-256: sha256=…` over the body.
///
/// The id is the header `X-GitHub-Delivery`, which a redelivery keeps. **GitHub signs neither the id nor a time**: whoever gets
/// hold of a delivery can send it again under another id, at any time; TLS is what keeps it from others. The older SHA-1 header is never
/// looked at. The content type of the webhook must be `application/json`. `X-GitHub-Event` says what happened: take
/// it by a `HeaderMap` before this extractor. GitHub doesn't retry by itself, and redelivers by hand for 3 days:
/// `retry_window = github`.
#[derive(Debug)]
pub enum GitHub {}

impl Scheme for GitHub {
    const NAME: &'static str = "GitHub";
    type Context = ();

    fn claimed<'a>(headers: &'a HeaderMap, (): &'a ()) -> Result<Claimed<'a>, WebhookProblem> {
        let signature = required(headers, "x-hub-signature-256")?
            .strip_prefix("sha256=")
            .ok_or_else(|| malformed("`X-Hub-Signature-256` does not begin with `sha256=`"))?;
        Ok(Claimed {
            before: Cow::Borrowed(b""),
            signatures: vec![signature.as_bytes()],
            encoding: Encoding::Hex,
            at: None,
        })
    }

    fn delivery(headers: &HeaderMap, _: &[u8]) -> Result<Delivery, WebhookProblem> {
        match single(headers, "x-github-delivery")? {
            Some(id) if !id.is_empty() => Ok(Delivery::Event(id.into())),
            _ => Err(EventIdMissing { place: "the header `X-GitHub-Delivery`" }.into()),
        }
    }
}
