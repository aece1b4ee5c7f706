//! The request's body: read once, within the router's limit, and handed on byte for byte.

use std::{
    future::poll_fn,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    RequestExt as _,
    body::Body,
    extract::{DefaultBodyLimit, FromRequest as _, Request},
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use http::{StatusCode, Version, header::CONTENT_LENGTH};
use http_body::{Body as _, Frame};

/// Reads the body and puts it back. Where it can't be read whole, the answer is the one that axum's own `Bytes` gives.
pub(super) async fn read(request: &mut Request) -> Result<Bytes, Response> {
    if request.body().is_end_stream() {
        return Ok(Bytes::new());
    }
    let mut body = take_limited(request);
    let (mut first, mut more) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) => return Err(Box::pin(refusal(error)).await),
        };
        if first.is_empty() {
            first = data;
        } else {
            more.extend_from_slice(&data);
        }
        // One look is cheaper than one more turn of whatever sends it.
        if body.is_end_stream() {
            break;
        }
    }
    // Most bodies come in one piece, and that is not copied.
    let bytes = if more.is_empty() { first } else { [first, more.freeze()].concat().into() };
    // A stream that is reset may look like one that ends (hyper issue 3681): half a request must not pass for a whole one.
    if request.version() == Version::HTTP_2 {
        let length = request.headers().get(CONTENT_LENGTH);
        match length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok()) {
            Some(length) if bytes.len() < length => {
                let text = "The request body is shorter than its Content-Length";
                return Err((StatusCode::BAD_REQUEST, text).into_response());
            }
            Some(_) => {}
            // It can't be told by a length, but the server drops this future the next time it waits.
            None => tokio::task::yield_now().await,
        }
    }
    *request.body_mut() = Body::from(bytes.clone());
    Ok(bytes)
}

/// Takes the body out, with the router's limit on it.
fn take_limited(request: &mut Request) -> Body {
    // The limit is among the extensions, and they are less to move than the head.
    let mut bare = Request::new(mem::take(request.body_mut()));
    mem::swap(bare.extensions_mut(), request.extensions_mut());
    let (mut parts, body) = bare.with_limited_body().into_parts();
    mem::swap(&mut parts.extensions, request.extensions_mut());
    body
}

/// What axum answers where a body fails so.
async fn refusal(error: axum::Error) -> Response {
    let mut failing = Request::new(Body::new(Failing(Some(error))));
    // The router's limit was on the body already; without this the default one would come on top.
    DefaultBodyLimit::disable().apply(&mut failing);
    match Bytes::from_request(failing, &()).await {
        Ok(_) => StatusCode::BAD_REQUEST.into_response(),
        Err(rejection) => rejection.into_response(),
    }
}

/// A body that is nothing but an error.
struct Failing(Option<axum::Error>);

impl http_body::Body for Failing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Poll::Ready(self.0.take().map(Err))
    }
}
