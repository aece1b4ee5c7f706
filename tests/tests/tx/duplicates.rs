//! Duplicates of a run whose record nobody else can see yet.

use idem_tests::{
    postgres::{eventually, number},
    server::Answer,
};

use crate::app::{Test, refused, soon, start};

const BODY: &str = r#"{"cents": 5}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_409_and_another_body_422_once_it_can_be_seen() {
    let Some(test) = start(4).await else { return };
    let running = test.begin("/slow", "k", BODY);
    test.held.begun(1).await;
    refused(&test.send("/slow", "k", BODY).await, 409, "idempotency_in_progress", Some("1"));
    refused(&test.send("/slow", "k", r#"{"cents": 6}"#).await, 409, "idempotency_in_progress", Some("1"));
    test.held.open(1);
    assert_eq!(running.await.unwrap().status, 201);
    refused(&test.send("/slow", "k", r#"{"cents": 6}"#).await, 422, "idempotency_key_reused", None);
    assert!(test.send("/slow", "k", BODY).await.is_replay());
    assert_eq!((test.held.runs(), test.payments("k").await), (1, 1));
    test.settled().await;
}

/// How many backends of this database wait for a lock.
async fn lock_waiters(test: &Test) -> i64 {
    let count = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event_type = 'Lock'",
        test.database
    );
    number(&test.direct, count).await
}

/// Duplicates give their connections back at once, so that everybody else goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_four_serves_a_hundred_duplicates_and_a_hundred_others() {
    let Some(test) = start(4).await else { return };
    let running = test.begin("/slow", "hot", BODY);
    test.held.begun(1).await;
    let mut requests = Vec::new();
    for at in 0..100 {
        requests.push(test.begin("/slow", "hot", BODY));
        requests.push(test.begin("/pay", &format!("other-{at}"), BODY));
    }
    for (at, request) in requests.into_iter().enumerate() {
        let answer = soon(request).await.unwrap();
        if at % 2 == 0 {
            refused(&answer, 409, "idempotency_in_progress", Some("1"));
        } else {
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        assert_eq!(lock_waiters(&test).await, 0);
    }
    test.held.open(1);
    assert_eq!(running.await.unwrap().status, 201);
    assert_eq!(number(&test.direct, "SELECT count(*) FROM payments WHERE key LIKE 'other%'").await, 100);
    assert_eq!(test.payments("hot").await, 1);
    test.settled().await;
}

/// Those that wait hold no connection either, and get the one answer.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_duplicates_hold_no_connection_and_get_the_answer() {
    let Some(test) = start(2).await else { return };
    let mut waiting: Vec<_> = (0..50).map(|_| test.begin("/awaited", "k", "")).collect();
    test.held.begun(1).await;
    // With one connection in the run's hands the other serves whoever comes, though fifty wait.
    for at in 0..10 {
        assert_eq!(test.send("/pay", &format!("other-{at}"), BODY).await.status, 201);
    }
    assert_eq!(lock_waiters(&test).await, 0);
    // One that looks again is in a transaction for a moment.
    eventually("the waiting to be without a connection", || async { test.open_transactions().await == 1 }).await;
    test.held.open(1);
    let mut replays = 0;
    let first = soon(waiting.pop().unwrap()).await.unwrap();
    for answer in waiting {
        let answer = soon(answer).await.unwrap();
        assert_eq!((answer.status, &answer.body), (201, &first.body), "{}", answer.text());
        replays += usize::from(answer.is_replay());
    }
    assert_eq!((replays + usize::from(first.is_replay()), test.held.runs(), test.payments("k").await), (49, 1 + 10, 1));
    test.settled().await;
}

/// A waiter whose attempt was undone becomes the owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_runs_where_the_first_was_undone() {
    let Some(test) = start(3).await else { return };
    let first = test.request("/awaited", "k", "").send();
    let first = tokio::spawn(first);
    test.held.begun(1).await;
    let second = test.begin("/awaited", "k", "");
    let terminate = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{}' \
         AND state = 'idle in transaction' AND query LIKE 'INSERT INTO payments%'",
        test.database
    );
    eventually("the termination", || async { number(&test.direct, terminate.clone()).await == 1 }).await;
    test.held.begun(2).await;
    test.held.open(2);
    assert_eq!(second.await.unwrap().status, 201);
    let first = Answer::of(first.await.unwrap().unwrap()).await;
    refused(&first, 503, "idempotency_rolled_back", Some("1"));
    assert_eq!(test.payments("k").await, 1);
    test.settled().await;
}

/// Replays don't get in each other's way.
#[tokio::test(flavor = "multi_thread")]
async fn replays_at_once_are_all_replays() {
    let Some(test) = start(4).await else { return };
    assert_eq!(test.send("/pay", "k", BODY).await.status, 201);
    for answer in futures::future::join_all((0..100).map(|_| test.send("/pay", "k", BODY))).await {
        assert!(answer.is_replay(), "{}", answer.text());
    }
}
