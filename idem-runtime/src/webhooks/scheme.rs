//! What senders have in common: an HMAC-SHA256 over the body and something before it, written into a header.

use std::{borrow::Cow, time::SystemTime};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use serde::de::DeserializeOwned;
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};

use super::{
    SecretError,
    problem::{SignatureInvalid, SignatureMissing, WebhookProblem},
};

/// A secret, ready to sign; the text itself is not kept.
#[derive(Clone)]
pub(super) struct Secret(Hmac<Sha256>);

impl Secret {
    pub(super) fn new(bytes: &[u8]) -> Result<Self, SecretError> {
        // Any length makes an HMAC, none included: everybody knows that secret.
        if bytes.is_empty() {
            return Err(SecretError::Empty);
        }
        Hmac::new_from_slice(bytes).map(Self).map_err(|_| SecretError::Empty)
    }

    /// Whether this secret made one of the signatures. The time it takes tells nothing of the right one.
    pub(super) fn signed(&self, claim: &Claimed<'_>, body: &[u8]) -> Choice {
        let mut mac = self.0.clone();
        mac.update(&claim.before);
        mac.update(body);
        let signature = claim.encoding.write(&mac.finalize().into_bytes());
        // The encoded texts are compared, so that there is one spelling of a signature and no decoder before the check.
        claim.signatures.iter().fold(Choice::from(0), |found, claimed| found | signature.as_bytes().ct_eq(claimed))
    }
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Lower-case hexadecimal.
    Hex,
    /// Base64 with padding (RFC 4648 §4).
    Base64,
}

impl Encoding {
    fn write(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => hex(bytes),
            Self::Base64 => STANDARD.encode(bytes),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// What a delivery says of its signature, before any of it is believed.
#[derive(Debug, PartialEq, Eq)]
pub struct Claimed<'a> {
    /// What is signed before the body.
    pub(super) before: Cow<'a, [u8]>,
    pub(super) signatures: Vec<&'a [u8]>,
    pub(super) encoding: Encoding,
    /// When it was signed, where the sender says so.
    pub(super) at: Option<SystemTime>,
}

/// What an authentic delivery is.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery {
    /// An event, by its id.
    Event(String),
    /// A question whether the endpoint is ours, to be answered with this.
    Handshake(String),
}

/// How one sender signs.
pub trait Scheme: Send + Sync + 'static {
    /// The sender's type, for errors.
    const NAME: &'static str;
    /// What is signed beside the request.
    type Context: Clone + Send + Sync + 'static;

    /// The secret's bytes from its text.
    fn secret(text: &str) -> Result<Vec<u8>, SecretError> {
        Ok(text.as_bytes().to_vec())
    }

    /// Reads the signature's headers.
    fn claimed<'a>(headers: &'a HeaderMap, context: &'a Self::Context) -> Result<Claimed<'a>, WebhookProblem>;

    /// What an authentic delivery is.
    fn delivery(headers: &HeaderMap, body: &[u8]) -> Result<Delivery, WebhookProblem>;
}

/// The one value of a header that takes part in the signature; an error where it is missing or ambiguous.
pub(super) fn required<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, WebhookProblem> {
    single(headers, name)?.ok_or_else(|| SignatureMissing { header: name }.into())
}

/// The one value of a header. Of two, the sender signed one and someone else may have added the other.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, WebhookProblem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(malformed("A header of the signature is not ASCII")),
        },
        (Some(_), Some(_)) => Err(malformed("A header of the signature was sent more than once")),
    }
}

pub(super) fn malformed(reason: &'static str) -> WebhookProblem {
    SignatureInvalid { reason }.into()
}

/// A Unix timestamp in seconds: digits and nothing else, so that it has one spelling.
pub(super) fn timestamp(text: &str) -> Result<SystemTime, WebhookProblem> {
    let wrong = || malformed("The signature's timestamp is not a Unix time in seconds");
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let seconds = text.parse().map_err(|_| wrong())?;
    SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(seconds)).ok_or_else(wrong)
}

/// Reads what is wanted of a JSON body.
pub(super) fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, WebhookProblem> {
    Ok(serde_json::from_slice(body)?)
}
