//! Clients that stall, ask first, or reset.

use std::time::Duration;

use axum::{
    body::Bytes,
    http::{Request, StatusCode, Version},
};
use h2::{Reason, client::SendRequest};
use idem_runtime::store::Verb;
use idem_tests::server::{Answer, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::app::start;

/// An HTTP/2 connection of its own.
async fn connect(server: &Server) -> SendRequest<Bytes> {
    let (sender, connection) = h2::client::handshake(server.connect().await).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

fn request(server: &Server, path: &str) -> Request<()> {
    let request = Request::post(server.url(path)).version(Version::HTTP_2).header("idempotency-key", "k1");
    request.body(()).unwrap()
}

/// A round trip on the same connection: the server has seen everything sent before it.
async fn settled(sender: &mut SendRequest<Bytes>, server: &Server) {
    let ping = Request::get(server.url("/pay")).version(Version::HTTP_2).body(()).unwrap();
    let (answer, _) = sender.send_request(ping, true).unwrap();
    assert_eq!(answer.await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
}

/// K16: a reset while the handler runs stops nothing.
#[tokio::test]
async fn a_reset_mid_run_does_not_stop_it() {
    let test = start().await;
    for reason in [Reason::CANCEL, Reason::NO_ERROR] {
        let mut sender = connect(&test.server).await;
        let runs = test.ledger.runs();
        let (answer, mut stream) = sender.send_request(request(&test.server, "/slow"), true).unwrap();
        test.ledger.begun(runs + 1).await;
        stream.send_reset(reason);
        drop(answer);
        settled(&mut sender, &test.server).await;
        test.ledger.open();
        test.drained().await;
        assert!(test.send("/slow").await.is_replay());
        assert_eq!((test.ledger.runs(), test.ledger.dropped()), (runs + 1, 0));
        test.store.expire(&test.id()).await.unwrap();
    }
    test.check(2, &["executed", "replayed", "executed", "replayed"]);
}

/// K16: half a body is never taken for a whole one, whether or not its length was announced.
#[tokio::test]
async fn a_reset_mid_body_claims_nothing() {
    let test = start().await;
    for reason in [Reason::CANCEL, Reason::NO_ERROR, Reason::INTERNAL_ERROR] {
        for length in [None, Some("8")] {
            let mut sender = connect(&test.server).await;
            let mut head = request(&test.server, "/bytes");
            if let Some(length) = length {
                head.headers_mut().insert("content-length", length.parse().unwrap());
            }
            let (answer, mut stream) = sender.send_request(head, false).unwrap();
            stream.send_data(Bytes::from_static(b"half"), false).unwrap();
            // The server reads the body before the reset, as far as it has come.
            settled(&mut sender, &test.server).await;
            stream.send_reset(reason);
            drop(answer);
            settled(&mut sender, &test.server).await;
            settled(&mut sender, &test.server).await;
            assert_eq!(test.store.calls(Verb::Claim), 0, "{reason:?} {length:?}");
        }
    }
    assert_eq!(test.ledger.runs(), 0);
    let mut sender = connect(&test.server).await;
    let (answer, mut stream) = sender.send_request(request(&test.server, "/bytes"), false).unwrap();
    stream.send_data(Bytes::from_static(b"whole"), true).unwrap();
    assert_eq!(answer.await.unwrap().status(), StatusCode::OK);
    test.check(1, &["executed"]);
}

/// A body that trickles in holds no claim.
#[tokio::test]
async fn a_stalled_body_holds_no_claim() {
    let test = start().await;
    let head =
        "POST /bytes HTTP/1.1\r\nhost: x\r\nconnection: close\r\nidempotency-key: k1\r\ncontent-length: 8\r\n\r\nhalf";
    let mut stalled = test.server.send_raw(head).await;
    let other = Answer::to(test.server.post("/bytes", "k1").body("halfhalf")).await;
    assert_eq!((other.status, other.text().as_str()), (200, "8"), "the key is free");
    assert_eq!(test.store.calls(Verb::Claim), 1);
    stalled.write_all(b"half").await.unwrap();
    let mut answer = String::new();
    stalled.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("idempotent-replayed: true"), "{answer}");
    test.check(1, &["executed", "replayed"]);
}

/// A body that is cut off claims nothing either.
#[tokio::test]
async fn a_body_that_is_cut_off_claims_nothing() {
    let test = start().await;
    for framing in ["content-length: 8\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let mut cut =
            test.server.send_raw(format!("POST /bytes HTTP/1.1\r\nhost: x\r\nidempotency-key: k1\r\n{framing}")).await;
        cut.shutdown().await.unwrap();
        let mut answer = String::new();
        cut.read_to_string(&mut answer).await.unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    assert_eq!(test.store.calls(Verb::Claim), 0);
    test.check(0, &[]);
}

/// A client that asks before it sends a large body is told about a missing key before it has sent it.
#[tokio::test]
async fn a_missing_key_is_refused_before_the_body() {
    let test = start().await;
    let head = "POST /bytes HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 8\r\n";
    let mut refused = test.server.send_raw(format!("{head}\r\n")).await;
    let mut first = [0; 12];
    tokio::time::timeout(Duration::from_secs(20), refused.read_exact(&mut first)).await.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 400");
    let mut asked = test.server.send_raw(format!("{head}connection: close\r\nidempotency-key: k1\r\n\r\n")).await;
    asked.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 100");
    assert_eq!(test.store.calls(Verb::Claim), 0);
    asked.write_all(b"12345678").await.unwrap();
    let mut answer = String::new();
    asked.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");
    test.check(1, &["key_missing", "executed"]);
}
