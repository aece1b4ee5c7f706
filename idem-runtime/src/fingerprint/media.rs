//! `Content-Type`, normalised.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use super::digest::Sink;
use crate::policy::Members;

/// The digest of the one media type that most requests have.
const JSON: [u8; 32] = [
    0x86, 0x45, 0x21, 0x2c, 0xa0, 0xcc, 0xcc, 0x71, 0xd1, 0xbb, 0xe2, 0xce, 0xb8, 0xf4, 0xe7, 0xd5, 0x1b, 0xe7, 0xad,
    0xfa, 0xcf, 0x31, 0x13, 0xfd, 0x61, 0x6f, 0x21, 0x0f, 0xdd, 0xa8, 0x73, 0x3f,
];

/// How a body of this type is compared.
pub(super) enum Kind<'a> {
    Json(Members),
    Form,
    Multipart(Cow<'a, [u8]>),
    Other,
}

/// A media type: essence and parameter names in lower case, parameters sorted.
pub(super) struct MediaType<'a> {
    essence: Cow<'a, [u8]>,
    parameters: Vec<(Vec<u8>, Cow<'a, [u8]>)>,
    boundary: Option<Cow<'a, [u8]>>,
}

impl<'a> MediaType<'a> {
    /// Reads a header value; one that is no media type counts as written.
    pub(super) fn read(value: &'a [u8]) -> Self {
        Self::parse(value).unwrap_or_else(|| Self { essence: value.into(), parameters: Vec::new(), boundary: None })
    }

    fn parse(value: &'a [u8]) -> Option<Self> {
        let end = value.iter().position(|&byte| byte == b';').unwrap_or(value.len());
        let (essence, mut rest) = value.split_at_checked(end)?;
        let mut media = Self { essence: lower(essence.trim_ascii()), parameters: Vec::new(), boundary: None };
        while let Some(after) = rest.strip_prefix(b";") {
            let after = after.trim_ascii_start();
            if after.is_empty() || after.starts_with(b";") {
                rest = after;
                continue;
            }
            let (name, after) = split_once(after, b'=')?;
            let (value, after) = parameter_value(after)?;
            media.add(name.to_ascii_lowercase(), value);
            rest = after.trim_ascii_start();
        }
        media.parameters.sort();
        rest.is_empty().then_some(media)
    }

    /// Keeps a parameter, unless it says nothing about what the body means.
    fn add(&mut self, name: Vec<u8>, value: Cow<'a, [u8]>) {
        match name.as_slice() {
            b"boundary" => self.boundary = self.boundary.take().or(Some(value)),
            b"charset" if value.eq_ignore_ascii_case(b"utf-8") => {}
            b"charset" => self.parameters.push((name, value.to_ascii_lowercase().into())),
            _ => self.parameters.push((name, value)),
        }
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        if *self.essence == *b"application/json" && self.parameters.is_empty() { JSON } else { self.hash() }
    }

    fn hash(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.framed(&self.essence);
        for (name, value) in &self.parameters {
            digest.framed(name);
            digest.framed(value);
        }
        digest.finalize().into()
    }

    pub(super) fn kind(&self) -> Kind<'_> {
        match (self.essence.as_ref(), &self.boundary) {
            (b"application/x-www-form-urlencoded", _) => Kind::Form,
            (essence, _) if essence == b"application/json" || essence.ends_with(b"+json") => Kind::Json(Members::All),
            (essence, Some(boundary)) if essence.starts_with(b"multipart/") => {
                Kind::Multipart(Cow::Borrowed(boundary.as_ref()))
            }
            _ => Kind::Other,
        }
    }
}

fn lower(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.iter().any(u8::is_ascii_uppercase) { bytes.to_ascii_lowercase().into() } else { bytes.into() }
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|&byte| byte == at)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

/// A token or a quoted string without its quotes, and what follows it.
fn parameter_value(bytes: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let Some(quoted) = bytes.strip_prefix(b"\"") else {
        let end = bytes.iter().position(|&byte| byte == b';').unwrap_or(bytes.len());
        let (value, rest) = bytes.split_at_checked(end)?;
        return Some((Cow::Borrowed(value.trim_ascii()), rest));
    };
    let mut value = Vec::new();
    let mut bytes = quoted.iter();
    loop {
        match bytes.next()? {
            b'"' => return Some((Cow::Owned(value), bytes.as_slice())),
            b'\\' => value.push(*bytes.next()?),
            byte => value.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        MediaType::read(a.as_bytes()).digest() == MediaType::read(b.as_bytes()).digest()
    }

    #[test]
    fn spelling_does_not_count() {
        assert!(same("application/json", "Application/JSON"));
        assert!(same("application/json", "application/json; charset=UTF-8"));
        assert!(same("application/json", "application/json;charset=\"utf-8\" ;"));
        assert!(same("text/plain; charset=ISO-8859-1", "text/plain;charset=iso-8859-1"));
        assert!(same("text/x; a=1; b=2", "text/x ;B=2;A=\"1\""));
        assert!(same("multipart/form-data; boundary=one", "multipart/form-data; boundary=\"two;\""));
    }

    #[test]
    fn meaning_counts() {
        assert!(!same("application/json", "application/jsonl"));
        assert!(!same("text/plain", "text/plain; charset=iso-8859-1"));
        assert!(!same("text/x; a=b", "text/x; a=B"));
        assert!(!same("text/x; a=\"1;b=2\"", "text/x; a=1; b=2"));
        assert!(!same("text/x; a=\"1", "text/x; a=1"));
    }

    #[test]
    fn what_is_known_is_what_is_computed() {
        let json = MediaType::read(b"application/json; charset=utf-8");
        assert_eq!(json.digest(), json.hash());
    }

    #[test]
    fn kinds() {
        let kind = |value: &str| match MediaType::read(value.as_bytes()).kind() {
            Kind::Json(_) => "json".to_owned(),
            Kind::Form => "form".to_owned(),
            Kind::Multipart(boundary) => String::from_utf8(boundary.to_vec()).unwrap(),
            Kind::Other => "other".to_owned(),
        };
        assert_eq!(kind("application/json; charset=utf-8"), "json");
        assert_eq!(kind("application/vnd.api+JSON"), "json");
        assert_eq!(kind("application/x-www-form-urlencoded"), "form");
        assert_eq!(kind("multipart/form-data; boundary=\"a\\\"b\""), "a\"b");
        assert_eq!(kind("multipart/form-data"), "other");
        assert_eq!(kind("text/plain"), "other");
    }
}
