//! The conformance suite over every way to reach the server, and what the table must stay like.

use idem_runtime::store::{Ack, Claimed, PurgeLimits, Store as _, StoreError, conformance};
use idem_tests::postgres::{Pooler, Postgres, execute, number, pool};
use sqlx::{Executor as _, postgres::PgPoolOptions};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    let Some(server) = server() else { return };
    let (store, _) = store(&server, &database(&server).await, 16).await;
    conformance::run(store).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn decides_as_the_rules_do() {
    let Some(server) = server() else { return };
    let (store, _) = store(&server, &database(&server).await, 2).await;
    crate::history::try_store(60, &store);
    crate::history::try_store(20, &store.simple_protocol(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract_in_simple_queries_and_another_schema() {
    let Some(server) = server() else { return };
    let (store, pool) = store(&server, &empty_database(&server).await, 16).await;
    execute(&pool, "CREATE SCHEMA payments").await;
    let store = store.simple_protocol(true).table("payments.once").unwrap();
    store.migrate().await.unwrap();
    conformance::run(store).await.unwrap();
    assert!(number(&pool, "SELECT count(*) FROM payments.once").await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract_through_a_transaction_pooler() {
    let Some(server) = server() else { return };
    let Some(pooler) = Pooler::start(&server, 3) else { return };
    let pool = pool(&pooler.url_of(&database(&server).await), 24).await;
    conformance::run(PostgresStore::new(pool).simple_protocol(true)).await.unwrap();
}

/// What an administrator may have set for other reasons changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract_under_serializable_and_east_of_utc() {
    let Some(server) = server() else { return };
    let url = server.url_of(&database(&server).await);
    let pool = PgPoolOptions::new()
        .max_connections(16)
        .after_connect(|connection, _| {
            Box::pin(async move {
                // The driver asks for UTC at the start-up, so a default would not reach the session.
                connection
                    .execute(
                        "SET timezone = 'Asia/Tokyo'; SET default_transaction_isolation = 'serializable'; \
                         SET synchronous_commit = off; SET bytea_output = escape; SET standard_conforming_strings = off",
                    )
                    .await?;
                Ok(())
            })
        })
        .connect(&url)
        .await
        .unwrap();
    assert_eq!(
        sqlx::query_scalar::<_, String>("SHOW transaction_isolation").fetch_one(&pool).await.unwrap(),
        "serializable"
    );
    conformance::run(PostgresStore::new(pool)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_processes_migrate_at_once() {
    let Some(server) = server() else { return };
    let name = empty_database(&server).await;
    let starts = (0..8).map(|_| {
        let url = server.url_of(&name);
        async move { PostgresStore::connect(&url).await }
    });
    for store in futures::future::join_all(starts).await {
        assert!(owns(&store.unwrap().claim(&fresh()).await.unwrap()));
    }
    // Where everything is there, a role that may create nothing will do.
    let admin = pool(&server.url_of(&name), 1).await;
    let role = format!("plain_{}", next());
    execute(
        &admin,
        format!(
            "CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON idem_record TO {role}"
        ),
    )
    .await;
    let plain = PostgresStore::connect(&server.url_of(&name).replace("postgres@", &format!("{role}@"))).await.unwrap();
    assert!(owns(&plain.claim(&fresh()).await.unwrap()));
}

#[tokio::test]
async fn what_is_decided_by_reading_takes_no_transaction_id_and_no_wal() {
    // Transaction ids and WAL are counted for the whole server.
    let Some(server) = Postgres::start() else { return };
    let (store, pool) = store(&server, &database(&server).await, 1).await;
    execute(&pool, "ALTER SYSTEM SET autovacuum = off; ").await;
    execute(&pool, "SELECT pg_reload_conf()").await;
    let (done, running) = (fresh(), fresh());
    assert!(owns(&store.claim(&done).await.unwrap()) && owns(&store.claim(&running).await.unwrap()));
    assert_eq!(store.complete(&completion(&done, "answer")).await.unwrap(), Ack::Done);
    assert!(matches!(
        store.claim(&Claim { waiting: true, ..duplicate(&running) }).await.unwrap(),
        Claimed::InProgress { .. }
    ));

    let ids = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    let wal = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let mut quiet = false;
    // The checkpointer and the background writer may log for themselves now and then.
    for _ in 0..5 {
        let before = (number(&pool, ids).await, number(&pool, wal).await);
        for _ in 0..50 {
            assert!(replays(&store.claim(&duplicate(&done)).await.unwrap(), b"answer"));
            let waiting = Claim { waiting: true, ..duplicate(&running) };
            assert!(matches!(store.claim(&waiting).await.unwrap(), Claimed::InProgress { lease_left: Some(_) }));
            let other = Claim { fingerprint: Fingerprint::from_bytes([2; Fingerprint::LENGTH]), ..duplicate(&done) };
            assert!(matches!(store.claim(&other).await.unwrap(), Claimed::Mismatch { .. }));
        }
        assert_eq!(number(&pool, ids).await, before.0, "transaction ids were taken");
        quiet |= number(&pool, wal).await == before.1;
    }
    assert!(quiet, "WAL was written");
}

#[tokio::test]
async fn damaged_rows_are_corrupt_and_never_run() {
    let Some(server) = server() else { return };
    let (store, pool) = store(&server, &database(&server).await, 2).await;
    for damage in ["state = 9", "state = 2, response = NULL"] {
        let claim = fresh();
        assert!(owns(&store.claim(&claim).await.unwrap()));
        execute(&pool, format!("UPDATE idem_record SET {damage} WHERE id = {}", sql_id(&claim))).await;
        let claimed = store.claim(&duplicate(&claim)).await;
        assert!(matches!(claimed, Err(StoreError::Corrupt(_))), "{damage}: {claimed:?}");
        let shown = store.get(&claim.id).await;
        assert!(matches!(shown, Err(StoreError::Corrupt(_))), "{damage}: {shown:?}");
    }
    let claim = fresh();
    assert!(owns(&store.claim(&claim).await.unwrap()));
    execute(&pool, format!("UPDATE idem_record SET epoch = -1, attempt = -1 WHERE id = {}", sql_id(&claim))).await;
    assert!(matches!(store.claim(&claim).await, Err(StoreError::Corrupt(_))));
    execute(&pool, format!("UPDATE idem_record SET state = 9 WHERE id = {}", sql_id(&claim))).await;
    assert!(matches!(store.complete(&completion(&claim, "late")).await, Err(StoreError::Corrupt(_))));
    assert!(store.forget(&claim.id).await.unwrap(), "an operator can remove it");
}

/// An attempt whose record commits with its own transaction holds the advisory lock on the id: nobody waits for it.
#[tokio::test]
async fn a_claim_never_waits_for_an_open_transaction() {
    let Some(server) = server() else { return };
    let (store, pool) = store(&server, &database(&server).await, 2).await;
    let claim = fresh();
    let mut held = pool.acquire().await.unwrap();
    let key = claim.id.prefix().cast_signed();
    let open = format!(
        "BEGIN; SELECT pg_advisory_xact_lock({key}); INSERT INTO idem_record \
         (id, state, token, epoch, attempt, hold, fingerprint, lease_until, expires, purge_at) \
         VALUES ({}, 1, '\\x00', 1, 1, false, '\\x00', 0, 9000000000000, 9000000000000)",
        sql_id(&claim)
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(open)).execute(&mut *held).await.unwrap();
    let claimed = tokio::time::timeout(Duration::from_secs(2), store.claim(&claim)).await.expect("it waits").unwrap();
    assert_eq!(claimed, Claimed::InProgress { lease_left: None });
    sqlx::raw_sql("ROLLBACK").execute(&mut *held).await.unwrap();
    assert!(owns(&store.claim(&claim).await.unwrap()));
}

/// What decides nothing leaves nothing: no transaction id, no WAL, no commit to wait for.
#[tokio::test]
async fn a_claim_that_owns_nothing_writes_nothing() {
    let Some(server) = server() else { return };
    let (store, pool) = store(&server, &database(&server).await, 2).await;
    let (running, completed) = (fresh(), fresh());
    for claim in [&running, &completed] {
        assert!(owns(&store.claim(claim).await.unwrap()));
    }
    assert_eq!(store.complete(&completion(&completed, "done")).await.unwrap(), Ack::Done);
    let mut connection = pool.acquire().await.unwrap();
    for (claim, print, outcome) in [
        (&running, 1, "in_progress"),
        (&running, 2, "mismatch"),
        (&completed, 1, "replay"),
        (&completed, 2, "mismatch"),
        (&fresh(), 1, "owner"),
    ] {
        let print = hex(&[print; Fingerprint::LENGTH]);
        let again = format!(
            "SELECT f.outcome, txid_current_if_assigned() IS NOT NULL FROM idem_record_claim_v1({}, '\\x02', \
             ARRAY['\\x{print}'::bytea], false, 1000, 1000, false) f",
            sql_id(claim)
        );
        let (got, wrote): (String, bool) =
            sqlx::query_as(sqlx::AssertSqlSafe(again)).fetch_one(&mut *connection).await.unwrap();
        assert_eq!((got.as_str(), wrote), (outcome, outcome == "owner"));
    }
}

/// A plan that reads all of a table is the cheapest while there is next to nothing in it, and then lasts while it grows.
#[tokio::test]
async fn nothing_is_planned_for_a_small_table() {
    let Some(server) = server() else { return };
    let (store, pool) = store(&server, &database(&server).await, 1).await;
    execute(&pool, "ALTER TABLE idem_record SET (autovacuum_enabled = off)").await;
    assert!(owns(&store.claim(&fresh()).await.unwrap()));
    execute(&pool, "VACUUM ANALYZE idem_record").await;
    let scans = async || {
        execute(&pool, "SELECT pg_stat_force_next_flush()").await;
        number(&pool, "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'idem_record'").await
    };
    let before = scans().await;
    // The sixth time a plan is made for good.
    for _ in 0..7 {
        let (completed, held, released) = (fresh(), fresh(), fresh());
        for claim in [&completed, &held, &released] {
            assert!(owns(&store.claim(claim).await.unwrap()));
            assert_eq!(store.renew(&claim.id, &claim.token, claim.lease).await.unwrap(), Ack::Done);
        }
        assert_eq!(store.complete(&completion(&completed, "done")).await.unwrap(), Ack::Done);
        assert!(replays(&store.claim(&duplicate(&completed)).await.unwrap(), b"done"));
        assert_eq!(store.hold(&held.id, &held.token, held.ttl).await.unwrap(), Ack::Done);
        assert_eq!(store.release(&released.id, &released.token).await.unwrap(), Ack::Done);
        assert!(store.get(&completed.id).await.unwrap().is_some());
        store.purge(PurgeLimits::default()).await.unwrap();
        let inside = format!(
            "SELECT (idem_record_tx_complete_v1(c.id, '\\x02', f.xact, f.place, 1000, '\\x')) \
             FROM (SELECT {}::bytea AS id) c, \
             LATERAL idem_record_tx_claim_v1(c.id, '\\x02', ARRAY['\\x01'::bytea], 1000, 1000) f",
            sql_id(&fresh())
        );
        let ack: String = sqlx::query_scalar(sqlx::AssertSqlSafe(inside)).fetch_one(&pool).await.unwrap();
        assert_eq!(ack, "done");
        let once = format!("SELECT idem_record_once_v1({}, '\\x02', '\\x01', 1000)", sql_id(&fresh()));
        let first: String = sqlx::query_scalar(sqlx::AssertSqlSafe(once)).fetch_one(&pool).await.unwrap();
        assert_eq!(first, "first");
        assert!(store.forget(&completed.id).await.unwrap());
    }
    assert_eq!(scans().await - before, 0, "the table was read whole");
}
