//! Other attributes above and below see the handler as its author wrote it.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod orders;
mod others;

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{StatusCode, header},
};
use http_body_util::BodyExt;
use tower::ServiceExt;

const ORDER: &str = r#"{"id":"o-1","amount":5}"#;

fn request(path: &str) -> Request {
    Request::post(path)
        .header("idempotency-key", "k1")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(ORDER))
        .unwrap()
}

/// Two requests with one key get one answer.
async fn is_guarded(router: &Router, path: &str) {
    let mut answers = Vec::new();
    for _ in 0..2 {
        let response = router.clone().oneshot(request(path)).await.unwrap();
        let replayed = response.headers().contains_key("idempotent-replayed");
        assert_eq!(response.status(), StatusCode::CREATED, "{path}");
        answers.push((replayed, response.into_body().collect().await.unwrap().to_bytes()));
    }
    let [(false, first), (true, second)] = answers.as_slice() else { panic!("{path} isn't guarded: {answers:?}") };
    assert_eq!(first, second, "{path} ran twice");
}
