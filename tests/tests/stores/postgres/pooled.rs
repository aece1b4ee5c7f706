//! Connections that other code used before, or uses at the same time.

use idem_runtime::store::{Ack, Claimed, Store as _, StoreError};
use idem_tests::postgres::{Pooler, number, pool};
use sqlx::postgres::PgPoolOptions;

use super::*;

/// The driver may leave a connection inside a transaction when a `begin()` is dropped; what we write there is lost.
#[tokio::test]
async fn a_connection_in_a_stale_transaction_is_not_used() {
    let Some(server) = server() else { return };
    let name = database(&server).await;
    let other = pool(&server.url_of(&name), 1).await;
    for simple in [false, true] {
        for ping in [false, true] {
            for begin in [
                "BEGIN",
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM idem_record",
                "BEGIN; SELECT 1/0",
            ] {
                let url = server.url_of(&name);
                let pool =
                    PgPoolOptions::new().max_connections(1).test_before_acquire(ping).connect(&url).await.unwrap();
                let store = PostgresStore::new(pool.clone()).simple_protocol(simple);
                // The simple protocol has a pool of its own, which nobody else can poison; its check is tried below.
                let poisoned = store.claim(&fresh()).await;
                assert!(owns(&poisoned.unwrap()));
                let _ = sqlx::raw_sql(begin).execute(&pool).await;
                let claim = fresh();
                assert!(owns(&store.claim(&claim).await.unwrap()), "{begin}");
                let count = format!("SELECT count(*) FROM idem_record WHERE id = {}", sql_id(&claim));
                assert_eq!(number(&other, count).await, 1, "{begin}, simple {simple}: the claim was not committed");
            }
        }
    }
}

/// With the pool in our own hands the simple protocol sees a stale transaction too.
#[tokio::test]
async fn the_simple_protocol_sees_a_stale_transaction() {
    let Some(server) = server() else { return };
    let name = database(&server).await;
    let other = pool(&server.url_of(&name), 1).await;
    let opens = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&opens);
    // Every first connection is handed out inside a transaction.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .after_connect(move |connection, _| {
            let first = count.fetch_add(1, Ordering::SeqCst) % 2 == 1;
            Box::pin(async move {
                if first {
                    sqlx::raw_sql("BEGIN").execute(connection).await?;
                }
                Ok(())
            })
        })
        .connect(&server.url_of(&name))
        .await
        .unwrap();
    let store = PostgresStore::new(pool).simple_protocol(true);
    let claim = fresh();
    assert!(owns(&store.claim(&claim).await.unwrap()));
    let count = format!("SELECT count(*) FROM idem_record WHERE id = {}", sql_id(&claim));
    assert_eq!(number(&other, count).await, 1);
    assert_eq!(opens.load(Ordering::SeqCst), 3, "the stale connection was not replaced");
}

/// Prepared statements over such a pooler fail, and may run or answer another client's: never is a wrong answer taken.
#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_through_a_transaction_pooler_never_answer_wrong() {
    let Some(server) = server() else { return };
    let name = database(&server).await;
    let Some(pooler) = Pooler::start(&server, 6) else { return };
    let url = pooler.url_of(&name);
    let (sure, _) = store(&server, &name, 4).await;
    let sure = Arc::new(sure);
    // Statement names stay taken on a server's connection: freed now and then, calls get past the preparing.
    let janitor = {
        let pool = pool(&url, 2).await;
        tokio::spawn(async move {
            loop {
                let _ = sqlx::raw_sql("DEALLOCATE ALL").execute(&pool).await;
                tokio::time::sleep(Duration::from_micros(300)).await;
            }
        })
    };
    let clients = (0..10_usize).map(|client| {
        let (url, sure) = (url.clone(), Arc::clone(&sure));
        tokio::spawn(async move {
            let (mut right, mut faults) = (0, 0);
            let pool = PgPoolOptions::new().max_connections(1).connect_lazy(&url).unwrap();
            let store = PostgresStore::new(pool);
            for round in 0..12 {
                let (done, running, open) = (fresh(), fresh(), fresh());
                for claim in [&done, &running] {
                    assert!(owns(&sure.claim(claim).await.unwrap()));
                }
                let outcome = format!("{client} {round}");
                assert_eq!(sure.complete(&completion(&done, outcome.clone())).await.unwrap(), Ack::Done);
                for step in 0..6 {
                    let answer = match (client + round + step) % 6 {
                        0 => store.claim(&duplicate(&done)).await.map(|got| replays(&got, outcome.as_bytes())),
                        1 => {
                            store.claim(&duplicate(&running)).await.map(|got| matches!(got, Claimed::InProgress { .. }))
                        }
                        2 => store.renew(&running.id, &running.token, LONG).await.map(|ack| ack == Ack::Done),
                        3 => store
                            .get(&done.id)
                            .await
                            .map(|got| got.and_then(|r| r.outcome) == Some(outcome.clone().into())),
                        4 => store.hold(&running.id, &token(), LONG).await.map(|ack| ack == Ack::Lost),
                        _ => store.forget(&open.id).await.map(|was_there| !was_there),
                    };
                    match answer {
                        Ok(true) => right += 1,
                        Ok(false) => panic!("client {client} took a wrong answer in round {round}, step {step}"),
                        Err(StoreError::Fault(_)) => faults += 1,
                        Err(other) => panic!("{}", chain(&other)),
                    }
                }
                // No statement of another client ran on these either.
                assert!(replays(&sure.claim(&duplicate(&done)).await.unwrap(), outcome.as_bytes()));
                assert!(matches!(sure.claim(&duplicate(&running)).await.unwrap(), Claimed::InProgress { .. }));
            }
            (right, faults)
        })
    });
    let (mut right, mut faults) = (0, 0);
    for client in futures::future::join_all(clients.collect::<Vec<_>>()).await {
        let (r, f) = client.unwrap();
        right += r;
        faults += f;
    }
    janitor.abort();
    assert_eq!(right + faults, 10 * 12 * 6);
    assert!(
        right > 50 && faults > 50,
        "the pooler mixed nothing up, so little was tried: {right} right, {faults} faults"
    );
}
