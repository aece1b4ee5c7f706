//! From the record back to an answer.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{
    HeaderValue,
    header::{CONTENT_ENCODING, TRAILER},
};
use http_body::Frame;

use super::{capture::Rejoined, headers::NOT_KEPT};
use crate::{Idempotency, record::Outcome, store::CorruptRecord};

/// Marks a replayed answer among its extensions, for layers outside: what they find in the extensions of a first answer
/// is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed(pub(super) ());

pub(super) fn response(outcome: Bytes, idempotency: &Idempotency) -> Result<Response, CorruptRecord> {
    let Outcome { status, mut headers, trailers, body } = Outcome::decode(outcome)?;
    headers.insert(idempotency.replay_header().clone(), HeaderValue::from_static("true"));
    let body = match (body, trailers) {
        (Some(body), None) => Body::from(body),
        (Some(body), Some(trailers)) => {
            Body::new(Rejoined { begun: [Ok(Frame::data(body)), Ok(Frame::trailers(trailers))].into(), rest: None })
        }
        (None, _) => {
            headers.insert(NOT_KEPT, HeaderValue::from_static("not-kept"));
            // Nothing is not valid gzip, and has no trailers.
            headers.remove(CONTENT_ENCODING);
            headers.remove(TRAILER);
            Body::empty()
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.extensions_mut().insert(Replayed(()));
    Ok(response)
}
