//! Clients that leave, at any moment of their request.

use std::time::Duration;

use sqlx::Connection as _;

use crate::app::{soon, start};

/// A thousand clients leave at moments all over their request; afterwards no pooled connection is inside a transaction that
/// somebody left, and every key has at most one row, which its retry is told of.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_hang_ups_leave_no_transaction_behind() {
    let Some(test) = start(4).await else { return };
    for round in 0..20_u64 {
        let clients = (0..50_u64).map(|client| {
            let key = format!("k{round}-{client}");
            let body = r#"{"cents": 5}"#;
            let request = format!(
                "POST /pay HTTP/1.1\r\nhost: x\r\nidempotency-key: {key}\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
            let service = &test.service;
            async move {
                let stream = service.send_raw(request).await;
                // From before the claim until after the answer.
                tokio::time::sleep(Duration::from_micros(client * 400)).await;
                drop(stream);
            }
        });
        soon(futures::future::join_all(clients)).await;
    }
    test.settled().await;
    // Each connection that the pool lends is in no transaction, and what is written through it is there.
    let mut lent = Vec::new();
    for at in 0..4 {
        let mut connection = soon(test.pool.acquire()).await.unwrap();
        sqlx::query("INSERT INTO payments (key, cents) VALUES ('plain', $1)")
            .bind(at)
            .execute(&mut *connection)
            .await
            .unwrap();
        let savepoint = connection.begin().await.unwrap();
        savepoint.rollback().await.unwrap();
        lent.push(connection);
    }
    assert_eq!(test.payments("plain").await, 4);
    drop(lent);
    let twice =
        "SELECT count(*) FROM (SELECT key FROM payments WHERE key LIKE 'k%' GROUP BY key HAVING count(*) > 1) twice";
    assert_eq!(idem_tests::postgres::number(&test.direct, twice).await, 0);
    for (round, client) in (0..20).flat_map(|round| [0, 7, 21, 35, 49].map(|client| (round, client))) {
        let key = format!("k{round}-{client}");
        assert_eq!(test.send("/pay", &key, r#"{"cents": 5}"#).await.status, 201);
        assert_eq!(test.payments(&key).await, 1, "{key}");
    }
}

/// A client that leaves stops nothing: the run commits, and the retry is a replay.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_client_left_commits() {
    let Some(test) = start(4).await else { return };
    let running = test.begin("/slow", "k", r#"{"cents": 5}"#);
    test.held.begun(1).await;
    running.abort();
    assert!(running.await.is_err());
    test.held.open(1);
    assert_eq!(test.idempotency.drain(Duration::from_secs(20)).await, 0);
    let retry = test.send("/slow", "k", r#"{"cents": 5}"#).await;
    assert!(retry.status == 201 && retry.is_replay());
    assert_eq!((test.held.runs(), test.payments("k").await), (1, 1));
    test.settled().await;
}
