//! The request's body: read once, within the router's limit, and handed on byte for byte.

use axum::{
    RequestExt as _,
    body::Body,
    extract::{DefaultBodyLimit, FromRequest as _, Request},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{StatusCode, Version, header::CONTENT_LENGTH};
use http_body::Body as _;

/// Reads the body and puts it back. Where it can't be read whole, the answer is the one that axum's own `Bytes` gives.
pub(super) async fn read(request: Request) -> Result<(Request, Bytes), Response> {
    if request.body().is_end_stream() {
        return Ok((request, Bytes::new()));
    }
    let (parts, body) = request.with_limited_body().into_parts();
    let mut limited = Request::new(body);
    // The router's limit is in the body already; without this the default one would come on top.
    DefaultBodyLimit::disable().apply(&mut limited);
    // In a box, as it is larger than all that is needed beside it.
    let bytes = Box::pin(Bytes::from_request(limited, &())).await.map_err(IntoResponse::into_response)?;
    // A stream that is reset may look like one that ends (hyper issue 3681): half a request must not pass for a whole one.
    if parts.version == Version::HTTP_2 {
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        match length {
            Some(length) if bytes.len() < length => {
                let text = "The request body is shorter than its Content-Length";
                return Err((StatusCode::BAD_REQUEST, text).into_response());
            }
            Some(_) => {}
            // It can't be told by a length, but the server drops this future the next time it waits.
            None => tokio::task::yield_now().await,
        }
    }
    Ok((Request::from_parts(parts, Body::from(bytes.clone())), bytes))
}
