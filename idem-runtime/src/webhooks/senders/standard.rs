use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderMap;

use crate::webhooks::{
    SecretError,
    problem::{EventIdMissing, WebhookProblem},
    scheme::{Claimed, Delivery, Encoding, Scheme, malformed, required, timestamp},
};

/// Standard Webhooks 1.0.0, and Svix by its own header names: `webhook-signature: v1,…` over `id.timestamp.body`.
///
/// The id is `webhook-id` or `svix-id`, and is signed. Where a delivery has both families of headers, `webhook-…` is read. Of
/// several signatures one has to be right; `v1a` (Ed25519) is ignored. Secrets are Base64, with or without `whsec_`. Retries go on for 75 h 35 min
/// in the specification's example, for 27 h 35 min at Svix: `retry_window = standard_webhooks` or `svix`.
#[derive(Debug)]
pub enum StandardWebhooks {}

/// The names of the id's, the timestamp's and the signature's header.
type Names = [&'static str; 3];

const STANDARD_NAMES: Names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
const SVIX_NAMES: Names = ["svix-id", "svix-timestamp", "svix-signature"];

/// One family of headers is read, never a mix.
fn names(headers: &HeaderMap) -> Names {
    let svix = STANDARD_NAMES.iter().all(|name| !headers.contains_key(*name))
        && SVIX_NAMES.iter().any(|name| headers.contains_key(*name));
    if svix { SVIX_NAMES } else { STANDARD_NAMES }
}

impl Scheme for StandardWebhooks {
    const NAME: &'static str = "StandardWebhooks";
    type Context = ();

    fn secret(text: &str) -> Result<Vec<u8>, SecretError> {
        if text.starts_with("whsk_") || text.starts_with("whpk_") {
            return Err(SecretError::Asymmetric);
        }
        STANDARD.decode(text.strip_prefix("whsec_").unwrap_or(text)).map_err(|_| SecretError::NotBase64)
    }

    fn claimed<'a>(headers: &'a HeaderMap, (): &'a ()) -> Result<Claimed<'a>, WebhookProblem> {
        let [id, at, signature] = names(headers);
        let signatures: Vec<_> = required(headers, signature)?
            .split(' ')
            .filter_map(|signature| signature.strip_prefix("v1,"))
            .map(str::as_bytes)
            .collect();
        if signatures.is_empty() {
            return Err(malformed("The signature header has no `v1,`"));
        }
        let (id, at) = (required(headers, id)?, required(headers, at)?);
        // A full stop would let an id and a timestamp be cut apart in two ways from the same signed bytes.
        if id.contains('.') {
            return Err(malformed("The webhook's id has a full stop"));
        }
        let before = Cow::Owned([id, ".", at, "."].concat().into_bytes());
        Ok(Claimed { before, signatures, encoding: Encoding::Base64, at: Some(timestamp(at)?) })
    }

    fn delivery(headers: &HeaderMap, _: &[u8]) -> Result<Delivery, WebhookProblem> {
        let [id, ..] = names(headers);
        match required(headers, id)? {
            "" => Err(EventIdMissing { place: "the header `webhook-id` or `svix-id`" }.into()),
            id => Ok(Delivery::Event(id.into())),
        }
    }
}
