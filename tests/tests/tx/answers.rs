//! Which answers commit, which undo, and what is recorded.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use idem_runtime::{idempotent, store::postgres::Tx};
use idem_tests::server::Answer;

use crate::app::{App, Failed, Held, insert, refused, soon, start};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/stream", post(streamed))
        .route("/rows", post(rows))
        .route("/hooks", post(hooks))
        .route("/unused", post(unused))
}

/// A body that comes in pieces, as long as the request says, slowly or broken.
#[idempotent(ttl = "24h", lease = "500ms", max_response = "1KiB")]
async fn streamed(mut tx: Tx, headers: HeaderMap, State(held): State<Held>) -> Result<Response, Failed> {
    let id = insert(&mut tx, &headers, 1).await?;
    let pieces: usize = headers["pieces"].to_str().unwrap().parse().unwrap();
    let how = headers["how"].to_str().unwrap().to_owned();
    let body = stream::iter(0..pieces).then(move |piece| {
        let (held, how) = (held.clone(), how.clone());
        async move {
            tokio::task::yield_now().await;
            match how.as_str() {
                "slow" if piece == 1 => held.gate().await,
                "broken" if piece == 1 => return Err(std::io::Error::other("broken")),
                _ => {}
            }
            Ok(Bytes::from(format!("{id};").repeat(50)))
        }
    });
    Ok(Body::from_stream(body).into_response())
}

/// A body that is read from the transaction as it is sent.
#[idempotent(ttl = "24h")]
async fn rows(mut tx: Tx, headers: HeaderMap) -> Result<Response, Failed> {
    insert(&mut tx, &headers, 1).await?;
    let body = stream::unfold((tx, 0_i64), |(mut tx, row)| async move {
        let next: i64 =
            sqlx::query_scalar("SELECT $1 + count(*) FROM payments").bind(row).fetch_one(&mut *tx).await.unwrap();
        (row < 3).then(|| (Ok::<_, std::io::Error>(Bytes::from(format!("{next}\n"))), (tx, row + 1)))
    });
    Ok(Body::from_stream(body).into_response())
}

#[idempotent(ttl = "24h")]
async fn hooks(tx: Tx, headers: HeaderMap, State(held): State<Held>) -> String {
    // Without a connection of its own it would see its own writes only.
    tx.after_commit(async move { held.begin() });
    assert!(!headers.contains_key("panic"), "after the effect was handed over");
    "done".to_owned()
}

#[idempotent(ttl = "24h")]
async fn unused(_: Tx) -> &'static str {
    "nothing was written"
}

#[tokio::test(flavor = "multi_thread")]
async fn success_commits_with_its_record_and_is_replayed() {
    let Some(test) = start(4).await else { return };
    for (path, body) in [("/pay", r#"{"cents": 5}"#), ("/last", ""), ("/stated", ""), ("/unused", "")] {
        let key = format!("k-{path}");
        let first = test.send(path, &key, body).await;
        assert!(first.status < 300 && !first.is_replay(), "{path}: {} {}", first.status, first.text());
        let second = test.send(path, &key, body).await;
        assert!(second.is_replay() && second.body == first.body && second.status == first.status, "{path}");
        assert_eq!(test.payments(&key).await, i64::from(path != "/unused"));
    }
    test.settled().await;
}

/// What is kept, what is undone, and how often the handler has run after a retry.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_decides() {
    let Some(test) = start(4).await else { return };
    let cases = [
        // path, answer, act: rows, replayed
        ("/pay", 303, "", 1, true),
        ("/pay", 402, "", 0, true),
        ("/pay", 422, "", 0, true),
        ("/pay", 409, "", 0, false),
        ("/pay", 429, "", 0, false),
        ("/pay", 500, "", 0, false),
        ("/pay", 402, "keep", 1, true),
        ("/pay", 500, "keep", 1, true),
        ("/pay", 201, "release", 0, false),
        ("/kept", 500, "", 0, true),
        ("/kept", 429, "", 0, true),
    ];
    for (at, (path, answer, act, rows, replayed)) in cases.into_iter().enumerate() {
        let (key, body) = (format!("k{at}"), format!(r#"{{"cents": 5, "answer": {answer}, "act": "{act}"}}"#));
        for again in [false, true] {
            let got = test.send(path, &key, &body).await;
            assert_eq!((got.status, got.is_replay()), (answer, again && replayed), "{path} {body}: {}", got.text());
        }
        assert_eq!(test.payments(&key).await, rows, "{path} {body}");
    }
    test.settled().await;
}

/// A 4xx that was recorded names nothing that is there; it stands although a retry would fare better.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_holds_is_undone_and_held() {
    let Some(test) = start(4).await else { return };
    let body = r#"{"cents": 5, "act": "hold"}"#;
    assert_eq!(test.send("/pay", "k", body).await.status, 201);
    refused(&test.send("/pay", "k", body).await, 409, "idempotency_outcome_unknown", None);
    assert_eq!(test.payments("k").await, 0);
    assert!(test.idempotency.forget("POST /pay", &idem_runtime::Idempotency::NO_SCOPE, "k").await.unwrap());
    assert_eq!(test.send("/pay", "k", r#"{"cents": 6}"#).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_undoes_everything_and_closes_the_connection() {
    let Some(test) = start(4).await else { return };
    let failed = test.request("/pay", "k", r#"{"cents": 5, "act": "panic"}"#).send().await;
    assert!(failed.is_err(), "the connection stayed open");
    assert_eq!((test.payments("k").await, test.records().await), (0, 0));
    let free = test.send("/pay", "k", r#"{"cents": 6}"#).await;
    assert_eq!((free.status, free.is_replay()), (201, false));
    test.settled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn savepoints_fail_and_succeed_inside() {
    let Some(test) = start(4).await else { return };
    let got = test.send("/pay", "k", r#"{"cents": 5, "act": "savepoint"}"#).await;
    assert_eq!((got.status, test.payments("k").await), (201, 2), "{}", got.text());
    assert!(test.send("/pay", "k", r#"{"cents": 5, "act": "savepoint"}"#).await.is_replay());
    test.settled().await;
}

/// A handler that ends its transaction itself is told so; what it did is not run again by a retry.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_handler_ended_is_no_success() {
    let Some(test) = start(4).await else { return };
    for act in ["commit", "rollback", "behind", "kept"] {
        let body = format!(r#"{{"cents": 5, "act": "{act}"}}"#);
        let got = test.send("/pay", act, &body).await;
        refused(&got, 500, "idempotency_not_transactional", None);
        assert!(got.text().contains("ended its transaction itself"), "{}", got.text());
    }
    // The half that was committed is nobody's to repeat.
    for act in ["commit", "rollback", "behind"] {
        let again = test.send("/pay", act, &format!(r#"{{"cents": 5, "act": "{act}"}}"#)).await;
        refused(&again, 409, "idempotency_outcome_unknown", None);
        assert_eq!(test.payments(act).await, 1, "{act}");
    }
    // Its lock is held for as long as somebody has it; then everything is undone.
    refused(&test.send("/pay", "kept", r#"{"cents": 5}"#).await, 409, "idempotency_in_progress", Some("1"));
    test.held.open(1);
    assert_eq!(test.resend("/pay", "kept", r#"{"cents": 5}"#).await.status, 201);
    assert_eq!(test.payments("kept").await, 1);
    test.settled().await;
}

/// A savepoint that can't begin takes the whole transaction along; nothing that comes next may commit by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_savepoint_that_cannot_begin_leaves_nothing() {
    let Some(test) = start(4).await else { return };
    for act in ["stumble", "cancel"] {
        let body = format!(r#"{{"cents": 5, "act": "{act}"}}"#);
        assert!(test.request("/pay", act, &body).send().await.is_err(), "{act}: the handler panics");
        assert_eq!(test.payments(act).await, 0, "{act}");
        assert_eq!(test.resend("/pay", act, r#"{"cents": 5}"#).await.status, 201, "{act}: the key is free");
    }
    test.settled().await;
}

/// sqlx's own commit would only release the savepoint, and the answer would be of what is never there.
#[tokio::test(flavor = "multi_thread")]
async fn a_savepoint_that_is_left_open_commits_with_the_rest() {
    let Some(test) = start(1).await else { return };
    let body = r#"{"cents": 5, "act": "forget"}"#;
    assert_eq!(test.send("/pay", "k", body).await.status, 201);
    assert_eq!(test.payments("k").await, 1);
    assert!(test.send("/pay", "k", body).await.is_replay());
    // The pool's only connection is as good as new.
    assert_eq!(test.send("/pay", "k2", r#"{"cents": 5}"#).await.status, 201);
    test.settled().await;
}

/// What a retry can't mend is no 503.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_reached_is_an_error() {
    let Some(test) = start(4).await else { return };
    let got = test.send("/pay", "k", r#"{"cents": 5, "act": "elsewhere"}"#).await;
    refused(&got, 500, "idempotency_commit_refused", None);
    assert_eq!(test.payments("k").await, 0);
    test.settled().await;
}

/// The body is there before the commit, or a tombstone is.
#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_body_is_read_before_the_commit() {
    let Some(test) = start(4).await else { return };
    let send = |key: &'static str, pieces: usize, how: &'static str| {
        let request = test.service.keyless("/stream").header("idempotency-key", key);
        Answer::to(request.header("pieces", pieces).header("how", how))
    };
    let (first, second) = (send("small", 3, "fast").await, send("small", 3, "fast").await);
    assert!(first.status == 200 && second.is_replay() && first.body == second.body && !first.body.is_empty());

    let (first, second) = (send("large", 40, "fast").await, send("large", 40, "fast").await);
    assert_eq!((first.body.len(), second.body.len()), (4000, 0), "whole, then a tombstone");
    assert_eq!(second.headers["idempotent-body"], "not-kept");

    // The rest comes after the commit.
    let held = test.held.clone();
    let direct = test.direct.clone();
    let opener = tokio::spawn(async move {
        let committed = || async {
            idem_tests::postgres::number(&direct, "SELECT count(*) FROM payments WHERE key = 'slow'").await == 1
        };
        idem_tests::postgres::eventually("the commit of a slow answer", committed).await;
        held.open(1);
    });
    let first = soon(send("slow", 3, "slow")).await;
    opener.await.unwrap();
    assert_eq!(first.body.len() % 150, 0);
    assert!(!first.body.is_empty());
    assert_eq!(send("slow", 3, "slow").await.headers["idempotent-body"], "not-kept");

    refused(&send("broken", 3, "broken").await, 503, "idempotency_rolled_back", Some("1"));
    for (key, rows) in [("small", 1), ("large", 1), ("slow", 1), ("broken", 0)] {
        assert_eq!(test.payments(key).await, rows, "{key}");
    }
    test.settled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_be_read_from_the_transaction() {
    let Some(test) = start(4).await else { return };
    let first = test.send("/rows", "k", "").await;
    assert_eq!((first.status, first.text().as_str()), (200, "1\n2\n3\n"));
    assert_eq!(test.send("/rows", "k", "").await.text(), "1\n2\n3\n");
    assert_eq!(test.payments("k").await, 1);
    test.settled().await;
}

/// Effects outside run after a commit that is known, and never after anything else.
#[tokio::test(flavor = "multi_thread")]
async fn an_effect_runs_after_its_commit_only() {
    let Some(test) = start(4).await else { return };
    let failed = test.service.post("/hooks", "panics").header("panic", "1").send().await;
    assert!(failed.is_err());
    assert_eq!(test.send("/hooks", "k", "").await.status, 200);
    assert!(test.send("/hooks", "k", "").await.is_replay());
    test.held.begun(1).await;
    test.settled().await;
    assert_eq!(test.held.runs(), 1);
}

/// Where nothing guards the request, its writes are a transaction all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_unguarded_request_has_a_transaction_without_a_record() {
    let Some(test) = start(4).await else { return };
    let keyless = Answer::to(test.service.keyless("/last")).await;
    assert_eq!(keyless.status, 201);
    assert_eq!(Answer::to(test.service.get("/last").header("idempotency-key", "safe")).await.status, 201);
    assert_eq!(Answer::to(test.service.keyless("/last").header("fail", "1")).await.status, 500);
    assert_eq!((test.payments("").await, test.payments("safe").await, test.records().await), (1, 1, 0));
    assert_eq!(test.idempotency.drain(Duration::from_secs(20)).await, 0);
    test.settled().await;
}
