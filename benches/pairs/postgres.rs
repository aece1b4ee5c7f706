//! One INSERT and one UPDATE on the same pool, and a SELECT by key for a replay.

use std::{sync::Arc, time::Duration};

use idem_runtime::store::PostgresStore;
use sqlx::{PgPool, postgres::PgPoolOptions, query, query_scalar, raw_sql};

use crate::{
    turns::{Turns, rate},
    work::{OUTCOME, fresh, replay, run_once},
};

/// A pool that sends nothing of its own, and whether the server waits for its disk.
///
/// Without the disk stands for `synchronous_commit = off`, which the store overrules: a claim that a crash forgets would
/// run twice.
pub(crate) async fn connect(url: &str, clients: usize) -> (PgPool, &'static str) {
    let clients = u32::try_from(clients).unwrap();
    let pool = PgPoolOptions::new().min_connections(clients).max_connections(clients).test_before_acquire(false);
    // A plan made while the table is small would read it whole, and last while it grows.
    let pool = pool.after_connect(|connection, _| {
        Box::pin(async move { raw_sql("SET enable_seqscan = off").execute(connection).await.map(drop) })
    });
    let pool = pool.connect(url).await.unwrap();
    let fsync: String = query_scalar("SHOW fsync").fetch_one(&pool).await.unwrap();
    (pool, if fsync == "on" { "" } else { " without a disk" })
}

pub(crate) async fn compare(turns: &Turns, url: &str) {
    for clients in [1, 16] {
        let (pool, disk) = connect(url, clients).await;
        let store = Arc::new(PostgresStore::new(pool.clone()));
        store.migrate().await.unwrap();
        raw_sql("CREATE TABLE IF NOT EXISTS hand (id bytea PRIMARY KEY, state smallint, expires bigint, answer bytea)")
            .execute(&pool)
            .await
            .unwrap();
        let ours = async |lasts| {
            let store = Arc::clone(&store);
            rate(clients, lasts, move || {
                let store = Arc::clone(&store);
                async move { run_once(&*store, fresh()).await }
            })
            .await
        };
        let by_hand = async |lasts: Duration| {
            let pool = pool.clone();
            rate(clients, lasts, move || write_twice(pool.clone())).await
        };
        let wanted = if disk.is_empty() { 1.0 / 1.25 } else { 1.0 / 1.5 };
        let what = format!("postgres{disk}: claim + complete, of INSERT + UPDATE");
        turns.compare(&what, clients, Some(wanted), ours, by_hand).await;

        let id = fresh();
        run_once(&*store, id).await;
        let insert = query("INSERT INTO hand (id, state, answer) VALUES ($1, 2, $2)");
        insert.bind(&id.as_bytes()[..]).bind(OUTCOME).execute(&pool).await.unwrap();
        let ours = async |lasts| {
            let store = Arc::clone(&store);
            rate(clients, lasts, move || {
                let store = Arc::clone(&store);
                async move { replay(&*store, id).await }
            })
            .await
        };
        let by_hand = async |lasts: Duration| {
            let pool = pool.clone();
            rate(clients, lasts, move || {
                let pool = pool.clone();
                async move {
                    let select = query_scalar::<_, Vec<u8>>("SELECT answer FROM hand WHERE id = $1");
                    assert_eq!(select.bind(&id.as_bytes()[..]).fetch_one(&pool).await.unwrap(), OUTCOME);
                }
            })
            .await
        };
        turns.compare(&format!("postgres{disk}: replay, of SELECT"), clients, Some(0.4), ours, by_hand).await;
        // Neither table grows beyond what one comparison made.
        raw_sql("TRUNCATE hand, idem_record").execute(&pool).await.unwrap();
        pool.close().await;
    }
}

async fn write_twice(pool: PgPool) {
    let id = fresh();
    let id = &id.as_bytes()[..];
    let insert = query("INSERT INTO hand (id, state, expires) VALUES ($1, 1, $2)");
    insert.bind(id).bind(1_i64).execute(&pool).await.unwrap();
    let update = query("UPDATE hand SET state = 2, answer = $2 WHERE id = $1");
    update.bind(id).bind(OUTCOME).execute(&pool).await.unwrap();
}
