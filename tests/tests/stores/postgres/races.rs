//! Many callers at once.

use std::sync::atomic::AtomicBool;

use axum::{Router, extract::State, routing::post};
use idem_runtime::{
    Idempotency, idempotent,
    store::{Ack, Claimed, PurgeLimits, Store as _},
};
use idem_tests::{
    postgres::{eventually, execute, number},
    server::{Answer, Server},
};
use tokio::sync::Notify;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_duplicates_on_two_pools_one_owns() {
    let Some(server) = server() else { return };
    let name = database(&server).await;
    let stores = [Arc::new(store(&server, &name, 8).await.0), Arc::new(store(&server, &name, 8).await.0)];
    for round in 0..100 {
        let first = fresh();
        let claims = stores.iter().flat_map(|store| {
            (0..50).map(|_| {
                let (store, claim) = (Arc::clone(store), duplicate(&first));
                tokio::spawn(async move { store.claim(&claim).await })
            })
        });
        let mut owners = 0;
        for claimed in futures::future::join_all(claims).await {
            match claimed.unwrap() {
                Ok(Claimed::Owner { attempt, .. }) => {
                    assert_eq!(attempt, 1);
                    owners += 1;
                }
                Ok(Claimed::InProgress { .. }) => {}
                other => panic!("round {round}: {other:?}"),
            }
        }
        assert_eq!(owners, 1, "in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_find_a_lapsed_lease_one_takes_over() {
    let Some(server) = server() else { return };
    let store = Arc::new(store(&server, &database(&server).await, 16).await.0);
    for round in 0..40 {
        let lapsed = Claim { lease: Duration::from_millis(1), ..fresh() };
        let Claimed::Owner { epoch: first, .. } = store.claim(&lapsed).await.unwrap() else { panic!("not free") };
        tokio::time::sleep(Duration::from_millis(3)).await;
        let claims = (0..24).map(|_| {
            let (store, claim) = (Arc::clone(&store), Claim { lease: LONG, ..duplicate(&lapsed) });
            tokio::spawn(async move { store.claim(&claim).await })
        });
        let mut owners = 0;
        for claimed in futures::future::join_all(claims.collect::<Vec<_>>()).await {
            match claimed.unwrap() {
                Ok(Claimed::Owner { attempt: 2, epoch }) if epoch > first => owners += 1,
                Ok(Claimed::InProgress { .. }) => {}
                other => panic!("round {round}: {other:?}"),
            }
        }
        assert_eq!(owners, 1, "in round {round}");
        assert_eq!(store.renew(&lapsed.id, &lapsed.token, LONG).await.unwrap(), Ack::Lost);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_four_serves_a_hundred_handlers_that_use_it_too() {
    let Some(server) = server() else { return };
    let (store, pool) = store(&server, &database(&server).await, 4).await;
    let store = Arc::new(store);
    let attempts = (0..100).map(|_| {
        let (store, pool, claim) = (Arc::clone(&store), pool.clone(), fresh());
        tokio::spawn(async move {
            assert!(owns(&store.claim(&claim).await.unwrap()));
            // The handler's own work: two statements and a pause, with a connection each time.
            for _ in 0..2 {
                number(&pool, "SELECT 1::bigint").await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(store.complete(&completion(&claim, "done")).await.unwrap(), Ack::Done);
        })
    });
    let all = tokio::time::timeout(Duration::from_secs(30), futures::future::join_all(attempts));
    for attempt in all.await.expect("they block each other") {
        attempt.unwrap();
    }
}

#[idempotent(ttl = "1h", wait = "20s")]
async fn pay(State(app): State<App>) -> String {
    let go_on = app.go_on.notified();
    app.runs.fetch_add(1, Ordering::Relaxed);
    go_on.await;
    number(&app.pool, "SELECT 1::bigint").await.to_string()
}

#[derive(Clone, axum::extract::FromRef)]
struct App {
    idempotency: Idempotency,
    pool: PgPool,
    runs: Arc<AtomicU64>,
    go_on: Arc<Notify>,
}

#[tokio::test(flavor = "multi_thread")]
async fn no_connection_is_held_while_a_handler_runs_or_a_duplicate_waits() {
    let Some(server) = server() else { return };
    let (store, pool) = store(&server, &database(&server).await, 4).await;
    let app =
        App { idempotency: Idempotency::new(store), pool: pool.clone(), runs: Arc::default(), go_on: Arc::default() };
    let service = Server::start(Router::new().route("/pay", post(pay)).with_state(app.clone())).await;
    // Ten handlers that wait to go on, and nine duplicates of each.
    let requests: Vec<_> =
        (0..100).map(|n| tokio::spawn(Answer::to(service.post("/pay", &format!("key-{}", n % 10))))).collect();
    eventually("ten handlers at work", || async { app.runs.load(Ordering::Relaxed) == 10 }).await;
    // Waiters look again now and then, with a connection each for that moment only.
    eventually("a pool at rest", || async { pool.num_idle() == pool.size() as usize }).await;
    let all = futures::future::try_join_all((0..4).map(|_| pool.acquire()));
    drop(tokio::time::timeout(Duration::from_secs(5), all).await.expect("some are held").unwrap());
    app.go_on.notify_waiters();
    for request in requests {
        let answer =
            tokio::time::timeout(Duration::from_secs(30), request).await.expect("they block each other").unwrap();
        assert_eq!((answer.status, &*answer.text()), (200, "1"));
    }
    assert_eq!(app.runs.load(Ordering::Relaxed), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn purge_takes_bounded_batches_under_load_and_never_the_living() {
    let Some(server) = server() else { return };
    let (store, pool) = store(&server, &database(&server).await, 8).await;
    let store = Arc::new(store);
    let living = fresh();
    assert!(owns(&store.claim(&living).await.unwrap()));
    execute(
        &pool,
        "INSERT INTO idem_record (id, state, token, epoch, attempt, hold, fingerprint, lease_until, expires, purge_at, response) \
         SELECT sha256(n::text::bytea), 2, '\\x00', 1, 1, false, '\\x00', 0, n, n, \
         CASE WHEN n <= 10 THEN convert_to(repeat('x', 100000), 'UTF8') ELSE '\\x01' END FROM generate_series(1, 6000) n",
    )
    .await;

    let one_batch = PurgeLimits { time: Duration::ZERO, ..PurgeLimits::default() };
    let by_bytes = store.purge(PurgeLimits { bytes: 250_000, ..one_batch }).await.unwrap();
    assert_eq!((by_bytes.removed, by_bytes.more), (3, true), "100 kB each, oldest first");
    let by_rows = store.purge(PurgeLimits { rows: 100, ..one_batch }).await.unwrap();
    assert_eq!((by_rows.removed, by_rows.more), (100, true));

    let stop = Arc::new(AtomicBool::new(false));
    let load = (0..4).map(|_| {
        let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut calls = 0;
            while !stop.load(Ordering::Relaxed) {
                let claim = fresh();
                assert!(owns(&store.claim(&claim).await.unwrap()));
                assert_eq!(store.complete(&completion(&claim, "kept")).await.unwrap(), Ack::Done);
                assert!(replays(&store.claim(&duplicate(&claim)).await.unwrap(), b"kept"));
                calls += 1;
            }
            calls
        })
    });
    let load: Vec<_> = load.collect();
    let limits = PurgeLimits { rows: 500, time: Duration::from_secs(20), ..PurgeLimits::default() };
    // Two purgers share the work.
    let (one, two) = tokio::join!(store.purge(limits), store.purge(limits));
    stop.store(true, Ordering::Relaxed);
    let mut calls = 0;
    for load in futures::future::join_all(load).await {
        calls += load.unwrap();
    }
    assert_eq!(one.unwrap().removed + two.unwrap().removed, 6000 - 103);
    assert_eq!(number(&pool, "SELECT count(*) FROM idem_record").await, calls + 1);
    assert!(store.get(&living.id).await.unwrap().is_some());
}

/// Statistics from when nothing had expired make the index by expiry look as good as the primary key for the delete, which
/// then reads all that has expired for each row it deletes.
#[tokio::test]
async fn a_purge_reads_what_it_removes_whatever_the_statistics_say() {
    let Some(server) = server() else { return };
    let name = database(&server).await;
    let (store, pool) = store(&server, &name, 2).await;
    let add = |from: i32, to: i32, purge_at: &str| {
        format!(
            "INSERT INTO idem_record (id, state, token, epoch, attempt, hold, fingerprint, lease_until, expires, purge_at) \
             SELECT sha256(n::text::bytea), 2, '\\x01', 1, 1, false, '\\x01', 0, {purge_at}, {purge_at} \
             FROM generate_series({from}, {to}) n"
        )
    };
    execute(&pool, "ALTER TABLE idem_record SET (autovacuum_enabled = off)").await;
    execute(&pool, add(1, 100_000, "4000000000000 + n")).await;
    execute(&pool, "ANALYZE idem_record").await;
    execute(&pool, add(100_001, 110_000, "1")).await;
    let mut transaction = pool.begin().await.unwrap();
    let purge = "SELECT removed FROM idem_record_purge_v1(250, 1000000)";
    let removed: i64 = sqlx::query_scalar(purge).fetch_one(&mut *transaction).await.unwrap();
    let read = "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'idem_record'";
    let read: i64 = sqlx::query_scalar(read).fetch_one(&mut *transaction).await.unwrap();
    assert_eq!(removed, 250);
    assert!(read <= 3 * 250, "{read} rows were read");
    transaction.rollback().await.unwrap();
    let limits = PurgeLimits { time: Duration::from_mins(1), ..PurgeLimits::default() };
    assert_eq!(store.purge(limits).await.unwrap().removed, 10_000);
}
