//! What waiting duplicates hear.

use idem_runtime::store::{Ack, Store as _, Wakeups};
use idem_tests::postgres::{eventually, hex, number};
use sqlx::postgres::PgListener;

use super::*;

async fn is_listening(pool: &PgPool, name: &str) -> bool {
    let count = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND query LIKE 'LISTEN%'");
    number(pool, count).await == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_wakes_the_waiters_of_another_store() {
    let Some(server) = server() else { return };
    let name = database(&server).await;
    let (owner, _) = store(&server, &name, 2).await;
    let (waiting, pool) = store(&server, &name, 2).await;
    let wakeups = Wakeups::default();
    waiting.listen(wakeups.clone());
    eventually("the listener", || is_listening(&pool, &name)).await;
    for verb in ["complete", "release", "hold", "forget", "complete after a lost connection"] {
        if verb.ends_with("connection") {
            let reconnected = wakeups.woken(&fresh().id);
            let kill = format!(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}' AND query LIKE 'LISTEN%'"
            );
            assert_eq!(number(&pool, kill).await, 1);
            // Whoever waits looks again: a notification may have been missed.
            tokio::time::timeout(Duration::from_secs(10), reconnected).await.expect("nobody was told to look again");
            eventually("the listener again", || is_listening(&pool, &name)).await;
        }
        let claim = fresh();
        assert!(owns(&owner.claim(&claim).await.unwrap()));
        let woken = wakeups.woken(&claim.id);
        assert!(!owns(&waiting.claim(&Claim { waiting: true, ..duplicate(&claim) }).await.unwrap()));
        match verb {
            "release" => assert_eq!(owner.release(&claim.id, &claim.token).await.unwrap(), Ack::Done),
            "hold" => assert_eq!(owner.hold(&claim.id, &claim.token, LONG).await.unwrap(), Ack::Done),
            "forget" => assert!(owner.forget(&claim.id).await.unwrap()),
            _ => assert_eq!(owner.complete(&completion(&claim, "done")).await.unwrap(), Ack::Done),
        }
        tokio::time::timeout(Duration::from_secs(5), woken).await.unwrap_or_else(|_| panic!("{verb} woke nobody"));
    }
    drop(waiting);
    eventually("the end of the listener", || async {
        let count = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND query LIKE 'LISTEN%'");
        number(&pool, count).await == 0
    })
    .await;
}

#[tokio::test]
async fn a_settlement_that_nobody_waits_for_notifies_nobody() {
    let Some(server) = server() else { return };
    let name = database(&server).await;
    let (store, _) = store(&server, &name, 2).await;
    let mut listener = PgListener::connect(&server.url_of(&name)).await.unwrap();
    listener.listen("idem_settled").await.unwrap();
    let (alone, awaited) = (fresh(), fresh());
    for claim in [&alone, &awaited] {
        assert!(owns(&store.claim(claim).await.unwrap()));
    }
    assert!(!owns(&store.claim(&duplicate(&alone)).await.unwrap()));
    assert!(!owns(&store.claim(&Claim { waiting: true, ..duplicate(&awaited) }).await.unwrap()));
    for claim in [&alone, &awaited] {
        assert_eq!(store.complete(&completion(claim, "done")).await.unwrap(), Ack::Done);
    }
    let heard = tokio::time::timeout(Duration::from_secs(5), listener.recv()).await.expect("nothing is heard").unwrap();
    assert_eq!(heard.payload(), hex(awaited.id.as_bytes()), "the first notification is the awaited record's");
}
