//! The stored outcome: an HTTP answer as bytes, versioned.
//!
//! Format 1: version byte, flags byte, status (2 bytes, big-endian), header fields, trailer fields if flagged, body to the
//! end. A field list is, for each field, name and value behind their lengths in LEB128, and a zero to end it.

use bytes::{Buf as _, BufMut as _, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::store::CorruptRecord;

const VERSION: u8 = 1;
const TOMBSTONE: u8 = 1;
const TRAILERS: u8 = 2;

/// An answer as it is stored and replayed.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: Option<HeaderMap>,
    /// `None` for a tombstone: the body was not kept.
    pub(crate) body: Option<Bytes>,
}

/// Encodes an answer; `body` comes in pieces, `None` makes a tombstone.
pub(crate) fn encode<'a>(
    status: StatusCode,
    headers: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>,
    trailers: Option<&HeaderMap>,
    body: Option<&[Bytes]>,
) -> Bytes {
    let size: usize = body.map_or(0, |body| body.iter().map(Bytes::len).sum());
    let mut out = Vec::with_capacity(size + 128);
    out.put_u8(VERSION);
    out.put_u8(if body.is_none() { TOMBSTONE } else { 0 } | if trailers.is_some() { TRAILERS } else { 0 });
    out.put_u16(status.as_u16());
    put_fields(&mut out, headers);
    if let Some(trailers) = trailers {
        put_fields(&mut out, trailers.iter());
    }
    for piece in body.unwrap_or_default() {
        out.extend_from_slice(piece);
    }
    out.into()
}

impl Outcome {
    /// Reads what [`encode`] wrote, in any format there ever was.
    pub(crate) fn decode(mut bytes: Bytes) -> Result<Self, CorruptRecord> {
        match bytes.try_get_u8() {
            Ok(VERSION) => {}
            Ok(_) => return Err(CorruptRecord::new("its outcome has a format this version doesn't know")),
            Err(_) => return Err(CorruptRecord::new("its outcome is empty")),
        }
        let truncated = || CorruptRecord::new("its outcome is truncated");
        let flags = bytes.try_get_u8().map_err(|_| truncated())?;
        if flags & !(TOMBSTONE | TRAILERS) != 0 {
            return Err(CorruptRecord::new("its outcome has unknown flags"));
        }
        let status = bytes.try_get_u16().map_err(|_| truncated())?;
        let status = StatusCode::from_u16(status).map_err(|_| CorruptRecord::new("its status is none"))?;
        let headers = get_fields(&mut bytes)?;
        let trailers = if flags & TRAILERS == 0 { None } else { Some(get_fields(&mut bytes)?) };
        if flags & TOMBSTONE != 0 && !bytes.is_empty() {
            return Err(CorruptRecord::new("its tombstone has a body"));
        }
        let body = (flags & TOMBSTONE == 0).then_some(bytes);
        Ok(Self { status, headers, trailers, body })
    }
}

fn put_fields<'a>(out: &mut Vec<u8>, fields: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>) {
    for (name, value) in fields {
        for bytes in [name.as_str().as_bytes(), value.as_bytes()] {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
    put_length(out, 0);
}

fn get_fields(bytes: &mut Bytes) -> Result<HeaderMap, CorruptRecord> {
    let mut fields = HeaderMap::new();
    loop {
        let name = get_piece(bytes)?;
        if name.is_empty() {
            return Ok(fields);
        }
        let name = HeaderName::from_bytes(&name).map_err(|_| CorruptRecord::new("a header name in it is none"))?;
        let value = HeaderValue::from_maybe_shared(get_piece(bytes)?);
        let value = value.map_err(|_| CorruptRecord::new("a header value in it is none"))?;
        fields.try_append(name, value).map_err(|_| CorruptRecord::new("it has too many headers"))?;
    }
}

fn put_length(out: &mut Vec<u8>, mut length: usize) {
    loop {
        let [low, ..] = length.to_le_bytes();
        length >>= 7;
        if length == 0 {
            return out.put_u8(low & 0x7f);
        }
        out.put_u8(low | 0x80);
    }
}

fn get_length(bytes: &mut Bytes) -> Result<usize, CorruptRecord> {
    let mut length = 0;
    for shift in (0..35).step_by(7) {
        let byte = bytes.try_get_u8().map_err(|_| CorruptRecord::new("its outcome is truncated"))?;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(length);
        }
    }
    Err(CorruptRecord::new("a length in it has no end"))
}

fn get_piece(bytes: &mut Bytes) -> Result<Bytes, CorruptRecord> {
    let length = get_length(bytes)?;
    if length > bytes.len() {
        return Err(CorruptRecord::new("its outcome is truncated"));
    }
    Ok(bytes.split_to(length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.append("content-type", HeaderValue::from_static("text/plain"));
        headers.append("link", HeaderValue::from_static("<a>"));
        headers.append("link", HeaderValue::from_static("<b>"));
        headers.append("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        headers
    }

    #[test]
    fn comes_back_as_it_went_in() {
        let body: Vec<u8> = (0..=255).collect();
        let pieces = [Bytes::copy_from_slice(&body[..100]), Bytes::copy_from_slice(&body[100..])];
        let trailers = headers();
        let bytes = encode(StatusCode::CREATED, headers().iter(), Some(&trailers), Some(&pieces));
        let outcome = Outcome::decode(bytes).unwrap();
        assert_eq!(outcome.status, StatusCode::CREATED);
        assert_eq!(outcome.headers, headers());
        assert_eq!(outcome.trailers, Some(trailers));
        assert_eq!(outcome.body.unwrap(), body);
    }

    #[test]
    fn a_tombstone_is_not_an_empty_body() {
        let none = HeaderMap::new();
        let tombstone = Outcome::decode(encode(StatusCode::OK, none.iter(), None, None)).unwrap();
        assert_eq!(tombstone.body, None);
        let empty = Outcome::decode(encode(StatusCode::OK, none.iter(), None, Some(&[]))).unwrap();
        assert_eq!(empty.body, Some(Bytes::new()));
    }

    /// Written down once: a record in a store must stay readable by every later version.
    #[test]
    fn format_1_is_frozen() {
        let mut headers = HeaderMap::new();
        headers.append("etag", HeaderValue::from_static("x"));
        let bytes = encode(StatusCode::CREATED, headers.iter(), None, Some(&[Bytes::from_static(b"ok")]));
        assert_eq!(bytes, b"\x01\x00\x00\xc9\x04etag\x01x\x00ok".as_slice());
    }

    #[test]
    fn a_newer_format_is_an_error() {
        let mut bytes = encode(StatusCode::OK, HeaderMap::new().iter(), None, Some(&[])).to_vec();
        bytes[0] = 2;
        assert!(Outcome::decode(bytes.into()).is_err());
    }

    fn fields() -> impl Strategy<Value = HeaderMap> {
        let value = prop::collection::vec(prop_oneof![Just(b'\t'), 0x20_u8..0x7f, 0x80_u8..], 0..300);
        prop::collection::vec(("[a-z!~0-9]{1,140}|x-again", value), 0..6).prop_map(|fields| {
            let named = |(name, value): (String, Vec<u8>)| {
                (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(&value).unwrap())
            };
            fields.into_iter().map(named).collect()
        })
    }

    fn encoded(outcome: &Outcome) -> Bytes {
        let body = outcome.body.clone().map(|body| [body]);
        let body = body.as_ref().map(<[Bytes; 1]>::as_slice);
        encode(outcome.status, outcome.headers.iter(), outcome.trailers.as_ref(), body)
    }

    fn outcomes() -> impl Strategy<Value = Outcome> {
        let body = prop::option::of(prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from));
        (100_u16..1000, fields(), prop::option::of(fields()), body).prop_map(|(status, headers, trailers, body)| {
            Outcome { status: StatusCode::from_u16(status).unwrap(), headers, trailers, body }
        })
    }

    proptest! {
        #[test]
        fn any_answer_comes_back(outcome in outcomes()) {
            let back = Outcome::decode(encoded(&outcome)).unwrap();
            prop_assert_eq!(back.status, outcome.status);
            prop_assert_eq!(back.headers, outcome.headers);
            prop_assert_eq!(back.trailers, outcome.trailers);
            prop_assert_eq!(back.body, outcome.body);
        }

        /// What can be read at all is read the same way again.
        #[test]
        fn a_damaged_answer_is_an_error_or_an_answer(outcome in outcomes(), at in any::<prop::sample::Index>(), by in 1_u8..) {
            let mut bytes = encoded(&outcome).to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            if let Ok(read) = Outcome::decode(bytes.into()) {
                let again = Outcome::decode(encoded(&read)).unwrap();
                prop_assert_eq!((again.status, again.headers, again.trailers, again.body),
                    (read.status, read.headers, read.trailers, read.body));
            }
        }

        #[test]
        fn damaged_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Outcome::decode(bytes.into());
        }

        #[test]
        fn a_truncated_head_is_an_error(cut in 0_usize..20) {
            let bytes = encode(StatusCode::OK, headers().iter(), None, Some(&[]));
            prop_assert!(Outcome::decode(bytes.slice(..cut)).is_err());
        }
    }
}
