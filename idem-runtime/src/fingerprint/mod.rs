//! What a request was, as a few bytes that a retry reproduces.
//!
//! # Format 1
//!
//! A store keeps these bytes, and a retry may be answered by a newer build: they never change. Another format gets
//! another version byte.
//!
//! | bytes | |
//! |---|---|
//! | 0 | `1` |
//! | 1–32 | SHA-256 over *target* ‖ *credentials* ‖ *media type* (32 bytes each) ‖ mode ‖ *body* |
//! | 33–36 | the first four bytes of *target* |
//! | 37 | the first byte of *credentials*; 38–40 are zero |
//! | 41–44 | the first four bytes of *media type* |
//!
//! A length is 8 bytes, little endian; *framed* means length, then bytes.
//!
//! * *target*: SHA-256 over the framed method, the framed path and the pairs of a query that isn't empty, written as a form body's.
//! * *credentials*: SHA-256 over each framed name and framed value in the order given, the values of several `cookie` lines joined by
//!   `; ` (RFC 9113 section 8.2.3 splits them); zeros where there are none.
//! * *media type*: SHA-256 over the normalised `Content-Type`; zeros where there is none, or where the body doesn't count.
//! * mode and *body*, which comes last and so needs no frame:
//!   `0` nothing; `1` the bytes; `2` canonical JSON; `3` canonical JSON without what the pointers of a selection point at;
//!   `4` the values these point at, each framed and empty where there is none; `5` form pairs, sorted by name unless a name
//!   has `[]`; `6` multipart.
//!   In `3` and `4` the number of pointers and each one framed, sorted, come first.
//!   JSON and multipart bodies that can't be read as such are mode `1`.
//!
//! The tags only name the part that differs: the digest decides. The credentials' tag depends on nothing else and is one
//! byte, so that a stolen store narrows a guessed password by 256 at most, however many records it holds of one caller;
//! one mismatch of credentials in 256 is therefore called a mismatch of something else.

mod digest;
mod form;
mod json;
mod media;
mod multipart;
mod number;
mod select;
mod target;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use self::{
    digest::Sink,
    json::Document,
    media::{Kind, MediaType},
    select::Selection,
};
use crate::policy::{BodyFingerprint, Members};

/// The format this build writes.
const VERSION: u8 = 1;

/// What was asked, in the parts a retry must repeat.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) method: &'a str,
    /// The original path, undecoded.
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    /// Lower-case header names with their values; empty where a scope says who is calling.
    pub(crate) credentials: &'a [(&'a str, &'a [u8])],
    pub(crate) content_type: Option<&'a [u8]>,
    pub(crate) body: &'a [u8],
    pub(crate) mode: BodyFingerprint,
}

/// The first part in which two requests differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The method, the path or the query.
    Target,
    /// The caller's credentials.
    Credentials,
    /// The content type.
    MediaType,
    /// The body.
    Body,
    /// Not to be told: the other one has another format.
    Unknown,
}

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

    /// What `parts` are, whatever the spelling of their meaning.
    pub(crate) fn of(parts: &Parts<'_>) -> Self {
        let media = match parts.mode {
            BodyFingerprint::None => None,
            _ => parts.content_type.map(MediaType::read),
        };
        let credentials = credentials(parts.credentials);
        let (target, mut digest) = target::begin(parts.method, parts.path, parts.query, &credentials);
        let media_type = media.as_ref().map_or([0; 32], MediaType::digest);

        digest.put(&media_type);
        body(parts, media.as_ref(), &mut digest);
        Self::assemble(&digest.finalize().into(), &target, credentials, &media_type)
    }

    fn assemble(digest: &[u8; 32], target: &[u8; 32], credentials: [u8; 32], media_type: &[u8; 32]) -> Self {
        let mut bytes = [0; Self::LENGTH];
        bytes[0] = VERSION;
        bytes[1..33].copy_from_slice(digest);
        bytes[33..37].copy_from_slice(&target[..4]);
        bytes[37] = credentials[0];
        bytes[41..45].copy_from_slice(&media_type[..4]);
        Self(bytes)
    }

    /// Names the part in which this one differs from an unequal one that a store kept.
    pub(crate) fn difference(&self, stored: &[u8]) -> Difference {
        let Ok(stored) = <[u8; Self::LENGTH]>::try_from(stored) else { return Difference::Unknown };
        let differs = |part: std::ops::Range<usize>| self.0.get(part.clone()) != stored.get(part);
        if differs(0..1) {
            Difference::Unknown
        } else if differs(33..37) {
            Difference::Target
        } else if differs(37..41) {
            Difference::Credentials
        } else if differs(41..45) {
            Difference::MediaType
        } else {
            Difference::Body
        }
    }
}

fn credentials(headers: &[(&str, &[u8])]) -> [u8; 32] {
    if headers.is_empty() {
        return [0; 32];
    }
    let mut digest = Sha256::new();
    for same_name in headers.chunk_by(|(a, _), (b, _)| *a == "cookie" && a == b) {
        if let [(name, first), rest @ ..] = same_name {
            digest.framed(name.as_bytes());
            if rest.is_empty() {
                digest.framed(first);
            } else {
                let values: Vec<_> = same_name.iter().map(|(_, value)| *value).collect();
                digest.framed(&values.join(&b"; "[..]));
            }
        }
    }
    digest.finalize().into()
}

/// Writes the mode byte and what of the body counts.
fn body(parts: &Parts<'_>, media: Option<&MediaType<'_>>, digest: &mut Sha256) {
    let kind = match parts.mode {
        BodyFingerprint::None => return digest.put(&[0]),
        BodyFingerprint::Raw => Kind::Other,
        BodyFingerprint::Json(members) => Kind::Json(members),
        BodyFingerprint::ByContentType => media.map_or(Kind::Other, MediaType::kind),
    };
    let written = match kind {
        Kind::Json(members) => json(parts.body, members, digest),
        Kind::Form => {
            digest.put(&[5]);
            form::write(parts.body, digest);
            true
        }
        Kind::Multipart(boundary) => multipart::Form::read(parts.body, &boundary)
            .map(|form| {
                digest.put(&[6]);
                form.write(digest);
            })
            .is_some(),
        Kind::Other => false,
    };
    if !written {
        digest.put(&[1]);
        digest.put(parts.body);
    }
}

/// Writes a JSON body, or nothing when it has to be taken by its bytes.
fn json(body: &[u8], members: Members, digest: &mut Sha256) -> bool {
    let (mode, selection) = match members {
        Members::All => (2, None),
        Members::Skip(pointers) => (3, Some(Selection::skip(pointers))),
        Members::Only(pointers) => (4, Some(Selection::only(pointers))),
    };
    let Some(document) = Document::read(body, selection.as_ref()) else { return false };
    digest.put(&[mode]);
    if let Some(selection) = &selection {
        selection.write(digest);
    }
    document.write(digest);
    true
}

impl PartialEq for Fingerprint {
    /// In constant time, so that answering a guess takes as long as answering the truth.
    fn eq(&self, other: &Self) -> bool {
        // In words: byte by byte it takes as long as hashing a block.
        let ((words, rest), (other_words, other_rest)) = (self.0.as_chunks::<8>(), other.0.as_chunks::<8>());
        let words = words.iter().zip(other_words);
        let words = words.fold(0, |differ, (a, b)| differ | (u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b)));
        let rest = rest.iter().zip(other_rest).fold(0, |differ, (a, b)| differ | (a ^ b));
        (words | u64::from(rest)).ct_eq(&0).into()
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
