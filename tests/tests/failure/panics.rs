//! Handlers and bodies that panic, and handlers that are dropped.

use idem_runtime::store::{Fault, State as Stored, Verb};

use crate::app::{refused, start};

fn raw(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\nidempotency-key: k1\r\ncontent-length: 0\r\n\r\n")
}

/// L4, K18: the connection closes as without the attribute, and the key is free.
#[tokio::test]
async fn a_panic_at_the_first_poll_releases() {
    let test = start().await;
    assert_eq!(test.server.raw(raw("/at-once")).await, b"");
    assert_eq!(test.stored().await, None);
    assert_eq!(test.send("/at-once").await.status, 200);
    test.check(2, &["released", "executed"]);
}

#[tokio::test]
async fn a_panic_is_held_where_that_was_asked_for() {
    let test = start().await;
    assert_eq!(test.server.raw(raw("/holding")).await, b"");
    assert_eq!(test.stored().await, Some(Stored::Unknown));
    refused(&test.send("/holding").await, 409, "idempotency_outcome_unknown", None);
    test.check(1, &["outcome_unknown", "outcome_unknown"]);
}

/// The store fails as the panic is settled: the panic still reaches the connection, the record is settled later.
#[tokio::test]
async fn a_panic_is_settled_later_when_the_store_fails() {
    let test = start().await;
    test.store.next(Verb::Hold, Fault::Fail);
    assert_eq!(test.server.raw(raw("/holding")).await, b"");
    test.drained().await;
    assert_eq!(test.stored().await, Some(Stored::Unknown));
    test.check(1, &["completion_late"]);
}

/// The handler has answered 200 and its effect stands, so a body that panics is a body that failed: it isn't run again.
#[tokio::test]
async fn a_body_that_panics_leaves_a_tombstone() {
    for path in ["/body/0/false", "/body/1/false", "/body/0/true", "/body/2/true"] {
        let test = start().await;
        // Cut before or behind its head, as any body that fails.
        if let Ok(cut) = test.server.post(path, "k1").send().await {
            assert_eq!(cut.status(), 200);
            assert!(cut.bytes().await.is_err(), "{path}: the caller sees the cut");
        }
        test.drained().await;
        let replay = test.send(path).await;
        assert!(replay.is_replay() && replay.body.is_empty(), "{path}");
        assert_eq!(replay.headers["idempotent-body"], "not-kept");
        test.check(1, &["executed", "replayed"]);
    }
}
