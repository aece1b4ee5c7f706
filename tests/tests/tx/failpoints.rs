//! The line is cut before and after each statement of a run.

use sqlx::postgres::PgPoolOptions;

use crate::{
    app::{Test, database, refused, server, start_over},
    cut::{Cutter, When},
};

const BODY: &str = r#"{"cents": 5}"#;

/// A service whose connections pass a cutter. No ping before a use: a broken connection is found by who uses it.
async fn start() -> Option<(Test, Cutter)> {
    let server = server()?;
    let name = database(&server).await;
    let cutter = Cutter::start(&server, &name).await;
    let pool = PgPoolOptions::new().max_connections(3).test_before_acquire(false).connect(&cutter.url).await.unwrap();
    let test = start_over(server, name, pool, |store| store).await;
    Some((test, cutter))
}

/// Cuts at `statement`, and checks the first answer, its retry and the ledger.
async fn cut(statement: &'static str, when: When, first: (u16, Option<&str>), replayed: bool) {
    let Some((test, cutter)) = start().await else { return };
    // Every statement is prepared by then.
    assert_eq!(test.send("/pay", "warm", BODY).await.status, 201);
    test.settled().await;
    cutter.arm(statement, when);
    let answer = test.send("/pay", "k", BODY).await;
    assert_eq!(cutter.cuts(), 1, "{statement} was never said");
    match first.1 {
        Some(code) => refused(&answer, first.0, code, Some("1")),
        None => assert_eq!(answer.status, first.0, "{}", answer.text()),
    }
    let retry = test.resend("/pay", "k", BODY).await;
    assert_eq!((retry.status, retry.is_replay()), (201, replayed), "{}", retry.text());
    assert_eq!(test.payments("k").await, 1);
    let id: i64 = retry.text().parse().unwrap();
    let named = format!("SELECT count(*) FROM payments WHERE id = {id} AND key = 'k'");
    assert_eq!(idem_tests::postgres::number(&test.direct, named).await, 1, "the answer names a row that isn't there");
    test.settled().await;
}

macro_rules! failpoints {
    ($($name:ident: $statement:literal $when:ident, $status:literal $code:expr, replayed $replayed:literal;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                cut($statement, When::$when, ($status, $code), $replayed).await;
            }
        )*
    };
}

failpoints! {
    // Nothing has run: it is done again on another connection, and the caller notices nothing.
    before_begin: "BEGIN" Before, 201 None, replayed true;
    after_begin: "BEGIN" After, 201 None, replayed true;
    before_the_claim: "tx_claim" Before, 201 None, replayed true;
    after_the_claim: "tx_claim" After, 201 None, replayed true;
    // The handler's own 500 would say that there is no use in a retry.
    before_the_handlers_write: "INSERT INTO payments" Before, 503 Some("idempotency_rolled_back"), replayed false;
    after_the_handlers_write: "INSERT INTO payments" After, 503 Some("idempotency_rolled_back"), replayed false;
    before_the_completion: "tx_complete" Before, 503 Some("idempotency_rolled_back"), replayed false;
    after_the_completion: "tx_complete" After, 503 Some("idempotency_rolled_back"), replayed false;
    // Whether the server got it can't be known; the retry finds out.
    before_commit: "COMMIT" Before, 503 Some("idempotency_commit_unknown"), replayed false;
    after_commit: "COMMIT" After, 503 Some("idempotency_commit_unknown"), replayed true;
}

/// Effects outside wait for a commit that is known.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_the_commit_runs_no_effect() {
    let Some((test, cutter)) = start().await else { return };
    cutter.arm("COMMIT", When::After);
    refused(&test.send("/hooks", "k", "").await, 503, "idempotency_commit_unknown", Some("1"));
    assert!(test.resend("/hooks", "k", "").await.is_replay());
    test.settled().await;
    assert_eq!(test.held.runs(), 0);
}

/// A rollback that is lost is one all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_rollback_frees_the_key() {
    for when in [When::Before, When::After] {
        let Some((test, cutter)) = start().await else { return };
        cutter.arm("ROLLBACK", when);
        let answer = test.send("/pay", "k", r#"{"cents": 5, "answer": 409}"#).await;
        assert_eq!((answer.status, cutter.cuts()), (409, 1));
        assert_eq!(test.resend("/pay", "k", BODY).await.status, 201);
        assert_eq!(test.payments("k").await, 1);
        test.settled().await;
    }
}
