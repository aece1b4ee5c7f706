//! Compression outside and inside, and trailers.

use std::{convert::Infallible, io::Read as _};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, Version, header},
    response::{IntoResponse, Response},
    routing::post,
};
use http_body_util::{BodyExt as _, Full};
use idem_runtime::idempotent;
use idem_tests::server::Answer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::compression::CompressionLayer;

use crate::app::{App, Ledger, Test, start_with};

const TEXT: &str = "the same words, the same words, the same words, the same words, the same words";

#[idempotent(ttl = "24h")]
async fn plain(State(ledger): State<Ledger>) -> String {
    ledger.number();
    TEXT.to_owned()
}

/// Compresses inside the guard: what is stored is compressed.
#[idempotent(ttl = "24h")]
async fn compressed(State(ledger): State<Ledger>, headers: HeaderMap) -> Response {
    ledger.number();
    let inner = service_fn(|_: Request| async { Ok::<_, Infallible>(Response::new(Body::from(TEXT))) });
    let mut request = Request::new(Body::empty());
    *request.headers_mut() = headers;
    let response = CompressionLayer::new().layer(inner).oneshot(request).await.unwrap();
    response.map(Body::new)
}

/// Answers with trailers.
#[idempotent(ttl = "24h")]
async fn trailed(State(ledger): State<Ledger>) -> impl IntoResponse {
    ledger.number();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", "17".parse().unwrap());
    let body = Full::new(Bytes::from_static(b"body")).with_trailers(std::future::ready(Some(Ok(trailers))));
    ([(header::TRAILER, "x-checksum")], Body::new(body))
}

async fn start() -> Test {
    start_with(
        |builder| builder,
        |app: App| {
            Router::new()
                .route("/plain", post(plain))
                .route("/compressed", post(compressed))
                .route("/trailed", post(trailed))
                .with_state(app)
                .layer(CompressionLayer::new())
        },
    )
    .await
}

/// Reads an answer by its own labels.
fn read(answer: &Answer) -> String {
    let mut text = String::new();
    match answer.headers.get("content-encoding").map(|value| value.to_str().unwrap()) {
        Some("gzip") => flate2::read::GzDecoder::new(&*answer.body).read_to_string(&mut text).map(drop).unwrap(),
        None => text = answer.text(),
        Some(other) => panic!("{other}"),
    }
    text
}

/// K32: stored plain, compressed for who asks.
#[tokio::test]
async fn compression_outside_fits_each_caller() {
    for (first, second) in [("gzip", "identity"), ("identity", "gzip")] {
        let test = start().await;
        for (at, encoding) in [first, second].into_iter().enumerate() {
            let answer = Answer::to(test.server.post("/plain", "k1").header("accept-encoding", encoding)).await;
            assert_eq!(read(&answer), TEXT);
            assert_eq!(answer.headers.contains_key("content-encoding"), encoding == "gzip");
            assert_eq!(answer.is_replay(), at == 1);
        }
        test.check(1, &["executed", "replayed"]);
    }
}

/// K32: what a handler compressed itself is replayed as it is, and labelled, so that whoever gets it can read it. A layer
/// outside leaves it alone.
#[tokio::test]
async fn compression_inside_is_labelled_on_replays() {
    for (first, second) in [("gzip", None), ("gzip", Some("gzip")), ("identity", Some("gzip"))] {
        let test = start().await;
        let answer = Answer::to(test.server.post("/compressed", "k1").header("accept-encoding", first)).await;
        assert_eq!(read(&answer), TEXT);
        let mut retry = test.server.post("/compressed", "k1");
        if let Some(second) = second {
            retry = retry.header("accept-encoding", second);
        }
        let replay = Answer::to(retry).await;
        assert!(replay.is_replay());
        assert_eq!(read(&replay), TEXT);
        assert_eq!(test.ledger.runs(), 1);
    }
}

/// Trailers are part of the answer, first and replayed.
#[tokio::test]
async fn trailers_are_kept() {
    let test = start().await;
    for replay in [false, true] {
        let (mut sender, connection) = h2::client::handshake(test.server.connect().await).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post(test.server.url("/trailed")).version(Version::HTTP_2);
        let request = request.header("idempotency-key", "k1").body(()).unwrap();
        let (answer, _) = sender.send_request(request, true).unwrap();
        let answer = answer.await.unwrap();
        assert_eq!(answer.headers().contains_key("idempotent-replayed"), replay);
        let mut body = answer.into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "body");
        assert!(body.data().await.is_none());
        assert_eq!(body.trailers().await.unwrap().unwrap()["x-checksum"], "17");
    }
    test.check(1, &["executed", "replayed"]);
}

/// In HTTP/1.1 too, where they come behind the last chunk.
#[tokio::test]
async fn trailers_are_kept_in_http_1() {
    let test = start().await;
    for replay in [false, true] {
        let mut stream = test.server.connect().await;
        let request = "POST /trailed HTTP/1.1\r\nhost: x\r\nidempotency-key: k1\r\nte: trailers\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("trailer: x-checksum\r\n") && !answer.contains("content-length"), "{answer}");
        assert!(answer.ends_with("4\r\nbody\r\n0\r\nx-checksum: 17\r\n\r\n"), "{answer}");
        assert_eq!(answer.contains("idempotent-replayed: true"), replay);
    }
    test.check(1, &["executed", "replayed"]);
}
