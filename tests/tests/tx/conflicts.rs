//! Transactions that get in each other's way, fail half-way, or are ended by the server.

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use idem_runtime::{
    idempotent,
    store::postgres::{Tx, is_conflict},
};
use idem_tests::postgres::{execute, number, pool};

use crate::app::{App, Failed, Held, Test, database, refused, server, soon, start, start_over};

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/leave", post(leave)).route("/lock", post(lock)).route("/told", post(told))
}

/// A doctor goes off call if another is on: write skew, unless the isolation level forbids it.
#[idempotent(ttl = "24h")]
async fn leave(mut tx: Tx, State(held): State<Held>, Json(name): Json<String>) -> Result<Response, Failed> {
    let on_call: i64 = sqlx::query_scalar("SELECT count(*) FROM doctors WHERE on_call").fetch_one(&mut *tx).await?;
    held.begin();
    held.gate().await;
    if on_call < 2 {
        return Ok(StatusCode::FORBIDDEN.into_response());
    }
    sqlx::query("UPDATE doctors SET on_call = false WHERE name = $1").bind(name).execute(&mut *tx).await?;
    Ok(StatusCode::OK.into_response())
}

/// Locks one row, then the other, in the order that it is told.
#[idempotent(ttl = "24h")]
async fn lock(mut tx: Tx, State(held): State<Held>, Json(names): Json<[String; 2]>) -> Result<&'static str, Failed> {
    let update = "UPDATE doctors SET on_call = on_call WHERE name = $1";
    sqlx::query(update).bind(&names[0]).execute(&mut *tx).await?;
    held.begin();
    held.gate().await;
    sqlx::query(update).bind(&names[1]).execute(&mut *tx).await?;
    Ok("locked both")
}

/// Tells conflicts from other errors by itself.
#[idempotent(ttl = "24h")]
async fn told(mut tx: Tx, Json(sql): Json<String>) -> Response {
    match sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut *tx).await {
        Ok(_) => StatusCode::OK.into_response(),
        Err(error) if is_conflict(&error) => (StatusCode::CONFLICT, "a conflict").into_response(),
        Err(_) => (StatusCode::UNPROCESSABLE_ENTITY, "an error").into_response(),
    }
}

async fn start_at(isolation: &str) -> Option<Test> {
    let server = server()?;
    let name = database(&server).await;
    let admin = pool(&server.url(), 1).await;
    execute(&admin, format!("ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")).await;
    let pool = pool(&server.url_of(&name), 6).await;
    Some(start_over(server, name, pool, |store| store).await)
}

const LEVELS: [&str; 3] = ["read committed", "repeatable read", "serializable"];

/// At every level: runs once, replays, refuses others; distinct keys don't disturb each other.
#[tokio::test(flavor = "multi_thread")]
async fn every_isolation_level_keeps_the_promise() {
    for isolation in LEVELS {
        let Some(test) = start_at(isolation).await else { return };
        let body = r#"{"cents": 5}"#;
        assert_eq!(test.send("/pay", "k", body).await.status, 201);
        assert!(test.send("/pay", "k", body).await.is_replay());
        refused(&test.send("/pay", "k", r#"{"cents": 6}"#).await, 422, "idempotency_key_reused", None);
        // Twenty keys, five times each, all at once.
        let answers = futures::future::join_all((0..100).map(|at| {
            let key = format!("k{}", at % 20);
            let request = test.request("/pay", &key, body);
            async move { (key, idem_tests::server::Answer::to(request).await) }
        }))
        .await;
        for (key, answer) in &answers {
            assert!(matches!(answer.status, 201 | 409), "{isolation}, {key}: {} {}", answer.status, answer.text());
        }
        for at in 0..20 {
            let key = format!("k{at}");
            assert!(test.resend("/pay", &key, body).await.is_replay(), "{isolation}, {key}");
            assert_eq!(test.payments(&key).await, 1, "{isolation}");
        }
        test.settled().await;
    }
}

/// A serialization failure is a 503 wherever it strikes: in the handler's statement, at the completion or at the commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_serialization_failure_is_rolled_back_and_free() {
    let Some(test) = start_at("serializable").await else { return };
    let requests = ["a", "b"].map(|doctor| test.begin("/leave", doctor, &format!("\"{doctor}\"")));
    test.held.begun(2).await;
    test.held.open(2);
    let mut statuses = Vec::new();
    for request in requests {
        let answer = request.await.unwrap();
        if answer.status != 200 {
            refused(&answer, 503, "idempotency_rolled_back", Some("1"));
        }
        statuses.push(answer.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503]);
    assert_eq!(number(&test.direct, "SELECT count(*) FROM doctors WHERE on_call").await, 1);
    // Both retry: one is a replay, the other now sees that it must stay.
    test.held.open(2);
    let mut retries = Vec::new();
    for doctor in ["a", "b"] {
        retries.push(test.send("/leave", doctor, &format!("\"{doctor}\"")).await.status);
    }
    retries.sort_unstable();
    assert_eq!(retries, [200, 403]);
    test.settled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_is_rolled_back_and_free() {
    let Some(test) = start(4).await else { return };
    let requests = [("1", r#"["a", "b"]"#), ("2", r#"["b", "a"]"#)].map(|(key, body)| test.begin("/lock", key, body));
    test.held.begun(2).await;
    test.held.open(2);
    let mut statuses = Vec::new();
    for request in requests {
        let answer = soon(request).await.unwrap();
        if answer.status != 200 {
            refused(&answer, 503, "idempotency_rolled_back", Some("1"));
        }
        statuses.push(answer.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503]);
    test.settled().await;
}

/// A transaction that failed can't commit, whatever its handler answers; COMMIT alone would report no error.
#[tokio::test(flavor = "multi_thread")]
async fn a_swallowed_error_is_never_a_success() {
    let Some(test) = start(4).await else { return };
    for (act, again) in [("swallow", 503), ("fail", 503)] {
        let body = format!(r#"{{"cents": 5, "act": "{act}"}}"#);
        for _ in 0..2 {
            refused(&test.send("/pay", act, &body).await, again, "idempotency_rolled_back", Some("1"));
        }
        assert_eq!((test.payments(act).await, test.records().await), (0, 0));
    }
    test.settled().await;
}

/// An answer given after a failed statement passes as it is, but is not kept: it may be a conflict in disguise.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_a_failed_statement_is_not_kept() {
    let Some(test) = start(4).await else { return };
    let raise = |code: &str| format!(r#""DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{code}'; END $$""#);
    for (code, status) in [("40001", 409), ("40P01", 409), ("55P03", 409), ("23505", 422), ("22012", 422)] {
        for _ in 0..2 {
            let answer = test.send("/told", code, &raise(code)).await;
            assert_eq!((answer.status, answer.is_replay()), (status, false), "{code}: {}", answer.text());
        }
    }
    assert_eq!(test.records().await, 0);
    test.settled().await;
}

/// What only the commit can refuse is the application's mistake: a retry won't help, and nothing is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_constraint_refuses_the_commit() {
    let Some(test) = start(4).await else { return };
    for _ in 0..2 {
        let send = || test.send("/pay", "k", r#"{"cents": 5, "act": "deferred"}"#);
        let mut answer = send().await;
        // The server tells of a failed COMMIT a moment before it lets go of the transaction's locks.
        while answer.status == 409 {
            answer = send().await;
        }
        refused(&answer, 500, "idempotency_commit_refused", None);
    }
    assert_eq!((test.payments("k").await, test.records().await), (0, 0));
    test.settled().await;
}

/// 25P03: a handler that lets its transaction lie for longer than its lease has lost it, and its key is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_idle_beyond_its_lease_is_ended() {
    let Some(test) = start(4).await else { return };
    let idle = test.begin("/idle", "k", "");
    test.held.begun(1).await;
    // The server has ended it while the handler still is held up: another attempt may run.
    let second = tokio::spawn({
        let request = test.request("/idle", "k", "");
        let held = test.held.clone();
        async move {
            let mut answer = idem_tests::server::Answer::to(request.try_clone().unwrap()).await;
            while answer.status == 409 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                answer = idem_tests::server::Answer::to(request.try_clone().unwrap()).await;
            }
            (answer, held.runs())
        }
    });
    test.held.begun(2).await;
    test.held.open(2);
    refused(&idle.await.unwrap(), 503, "idempotency_rolled_back", Some("1"));
    let (second, runs) = second.await.unwrap();
    assert_eq!((second.status, runs, test.payments("k").await), (201, 2, 2));
    test.settled().await;
}

/// 57P01: the backend is terminated in the middle of a statement.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_backend_is_rolled_back_and_free() {
    let Some(test) = start(4).await else { return };
    let running = test.begin("/pay", "k", r#"{"cents": 5, "act": "sleep"}"#);
    let terminate = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{}' AND query LIKE '%pg_sleep(60)' \
         AND state = 'active' AND pid <> pg_backend_pid()",
        test.database
    );
    idem_tests::postgres::eventually("the termination", || async {
        number(&test.direct, terminate.clone()).await == 1
    })
    .await;
    refused(&running.await.unwrap(), 503, "idempotency_rolled_back", Some("1"));
    assert_eq!(test.resend("/pay", "k", r#"{"cents": 5}"#).await.status, 201);
    assert_eq!(test.payments("k").await, 1);
    test.settled().await;
}

/// The driver may hand out a connection inside a transaction that somebody left open: nothing of ours may join it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_transaction_is_not_joined() {
    for begin in ["BEGIN; INSERT INTO payments (key, cents) VALUES ('stale', 1)", "BEGIN; SELECT 1/0"] {
        let Some(test) = start(1).await else { return };
        assert_eq!(test.send("/pay", "warm", r#"{"cents": 5}"#).await.status, 201);
        let _ = sqlx::raw_sql(begin).execute(&test.pool).await;
        assert_eq!(test.send("/pay", "k", r#"{"cents": 5}"#).await.status, 201, "{begin}");
        assert_eq!((test.payments("k").await, test.payments("stale").await), (1, 0), "{begin}");
        test.settled().await;
    }
}
