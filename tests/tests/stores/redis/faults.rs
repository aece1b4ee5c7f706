//! What the store does when the server fails.

use std::time::Duration;

use idem_runtime::store::{Ack, Claimed, RedisStore, Store as _, StoreError};
use idem_tests::{proxy::Proxy, redis::RedisServer};

use super::*;

/// A store that reaches its server through a proxy.
async fn through(server: &RedisServer) -> (Proxy, RedisStore) {
    let proxy = Proxy::start(server.address()).await.unwrap();
    let store = RedisStore::connect(format!("redis://{}", proxy.address())).await.unwrap();
    (proxy, store)
}

#[tokio::test]
async fn a_lost_acknowledgement_locks_nobody_out() {
    let (server, direct) = start!();
    let (proxy, store) = through(&server).await;

    // One loss: the call repeats itself and recognises its own claim.
    proxy.drop_replies(1);
    let epoch = owner(&store, &claim(1, 1)).await;
    assert_eq!(proxy.replies_to_drop(), 0);
    let record = direct.get(&id(1)).await.unwrap().unwrap();
    assert_eq!((record.epoch, record.attempt), (epoch, 1));

    // Two: the caller can't know, and its next claim tells it.
    proxy.drop_replies(2);
    let lost = ends(store.claim(&claim(2, 1))).await;
    fault(lost);
    let record = direct.get(&id(2)).await.unwrap().expect("the claim reached the server");
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(store.claim(&claim(2, 1)).await.unwrap(), Claimed::Owner { epoch: record.epoch, attempt: 1 });
    assert!(matches!(store.claim(&claim(2, 2)).await.unwrap(), Claimed::InProgress { .. }));

    // The same for what settles.
    proxy.drop_replies(1);
    assert_eq!(store.complete(&completion(2, 1)).await.unwrap(), Ack::Done);
    proxy.drop_replies(1);
    assert_eq!(store.release(&id(1), &token(1)).await.unwrap(), Ack::Done);
    assert_eq!(proxy.replies_to_drop(), 0);
}

#[tokio::test]
async fn a_cut_connection_costs_no_call() {
    let (server, store) = start!();
    owner(&store, &claim(1, 1)).await;
    let killed: u64 = server.run(redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"])).await;
    assert!(killed >= 1);
    owner(&store, &claim(2, 1)).await;

    let (proxy, store) = through(&server).await;
    proxy.cut();
    owner(&store, &claim(3, 1)).await;
}

#[tokio::test]
async fn a_stopped_server_is_a_fault_until_it_is_back() {
    let (mut server, store) = start!("--appendonly", "yes");
    owner(&store, &claim(1, 1)).await;
    server.stop();
    for _ in 0..3 {
        fault(ends(store.claim(&claim(2, 1))).await);
        fault(ends(store.complete(&completion(1, 1))).await);
    }
    server.restart().await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(store.complete(&completion(1, 1)).await.unwrap(), Ack::Done, "the first call after the outage");
    owner(&store, &claim(2, 1)).await;
}

#[tokio::test]
async fn a_silent_server_is_a_fault_in_time() {
    let (server, store) = start!();
    server.pause();
    let (one, two) = (claim(1, 1), claim(2, 1));
    let (first, second) = tokio::join!(ends(store.claim(&one)), ends(store.claim(&two)));
    fault(first);
    fault(second);
    fault(ends(store.get(&id(1))).await);
    server.resume();
    tokio::time::sleep(Duration::from_millis(60)).await;
    // Whether the silent server took the claim is unknown; its token finds out.
    owner(&store, &claim(1, 1)).await;
}

#[tokio::test]
async fn a_silent_connection_is_replaced() {
    let (server, _) = start!();
    let (proxy, store) = through(&server).await;
    proxy.delay(Duration::from_mins(10));
    fault(ends(store.claim(&claim(1, 1))).await);
    // The old connection stays as silent as it was.
    proxy.delay(Duration::ZERO);
    owner(&store, &claim(1, 1)).await;
}

#[tokio::test]
async fn a_killed_server_keeps_what_it_acknowledged() {
    let (mut server, store) = start!("--appendonly", "yes", "--appendfsync", "always");
    complete(&store, 1, 1).await;
    owner(&store, &claim(2, 1)).await;
    server.kill();
    server.restart().await;
    assert!(matches!(store.claim(&claim(1, 2)).await.unwrap(), Claimed::Replay { outcome } if outcome == PAID));
    assert!(matches!(store.claim(&claim(2, 2)).await.unwrap(), Claimed::InProgress { .. }));
    assert_eq!(store.complete(&completion(2, 1)).await.unwrap(), Ack::Done);
}

#[tokio::test]
async fn a_demoted_primary_decides_nothing() {
    let (server, store) = start!();
    complete(&store, 1, 1).await;
    owner(&store, &claim(2, 1)).await;
    // Of a primary that isn't there, so that it keeps what it holds.
    let () = server.run(redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1)).await;
    for answer in [
        store.claim(&claim(1, 2)).await.map(drop),
        store.claim(&claim(2, 2)).await.map(drop),
        store.claim(&claim(3, 1)).await.map(drop),
        store.complete(&completion(2, 1)).await.map(drop),
        store.get(&id(1)).await.map(drop),
    ] {
        assert!(fault(answer).contains("ReadOnly"));
    }
    let refused = RedisStore::connect(server.url()).await.map(drop);
    assert!(fault(refused).contains("replica"));
    let () = server.run(redis::cmd("REPLICAOF").arg("NO").arg("ONE")).await;
    assert_eq!(store.complete(&completion(2, 1)).await.unwrap(), Ack::Done);
}

#[tokio::test]
async fn a_failover_behind_one_address_is_followed() {
    let (server, _) = start!();
    let (heir, _) = start!();
    let (proxy, store) = through(&server).await;
    let () = server.run(redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1)).await;
    proxy.redirect(heir.address());
    // The old connection still stands, and leads to a replica now.
    assert!(fault(store.claim(&claim(1, 1)).await).contains("ReadOnly"));
    owner(&store, &claim(1, 1)).await;
}

#[tokio::test]
async fn a_primary_without_its_replicas_decides_nothing() {
    let (server, store) = start!();
    complete(&store, 1, 1).await;
    let () = server.run(redis::cmd("CONFIG").arg(&["SET", "min-replicas-to-write", "1"])).await;
    assert!(fault(store.claim(&claim(1, 2)).await).contains("NOREPLICAS"));
    assert!(fault(store.claim(&claim(2, 1)).await).contains("NOREPLICAS"));
    // Nor when it is full as well.
    let () = server.run(redis::cmd("CONFIG").arg(&["SET", "maxmemory", "1"])).await;
    assert!(fault(store.claim(&claim(1, 2)).await).contains("NOREPLICAS"));
}

#[tokio::test]
async fn a_wrong_address_is_an_error_at_once_and_never_shows_the_password() {
    let Some(server) = RedisServer::start(&["--requirepass", "secret-word"]).await else { return };
    let address = server.address();
    let nobody = Proxy::start(address).await.unwrap().address();
    let wrong = [
        format!("redis://:wrong-secret-word@{address}"),
        format!("redis://{address}"),
        format!("redis://:secret-word@{nobody}"),
        format!("redis://:secret-word@{address}/99"),
        format!("redis+cluster://:secret-word@{address}"),
        "nonsense:secret-word".to_owned(),
    ];
    for url in wrong {
        let error = ends(RedisStore::connect(&url)).await.expect_err(&url);
        let shown = format!("{error} {error:?}");
        assert!(matches!(error, StoreError::Fault(_)) && !shown.contains("secret-word"), "{url}: {shown}");
    }
    let store = RedisStore::connect(format!("redis://:secret-word@{address}")).await.unwrap();
    owner(&store, &claim(1, 1)).await;
    let shown = format!("{store:?}");
    assert!(shown.contains(&address.to_string()) && !shown.contains("secret-word"), "{shown}");
}
