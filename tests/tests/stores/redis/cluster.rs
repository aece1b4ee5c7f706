//! A cluster of three primaries.

use std::time::{Duration, Instant};

use idem_runtime::store::{Claimed, RedisStore, Store as _, conformance};
use idem_tests::redis::RedisCluster;

use super::*;

#[tokio::test]
async fn records_live_on_every_node() {
    let Some(cluster) = RedisCluster::start().await else { return };
    let store = RedisStore::connect(cluster.url()).await.unwrap();
    for on in 0..60 {
        complete(&store, on, 1).await;
        assert!(matches!(store.claim(&claim(on, 2)).await.unwrap(), Claimed::Replay { outcome } if outcome == PAID));
    }
    for node in &cluster.nodes {
        let records: u64 = node.run(&redis::cmd("DBSIZE")).await;
        assert!(records > 5, "{records} of 60 on one node of three");
        let () = node.run(redis::cmd("SCRIPT").arg("FLUSH")).await;
        let single = RedisStore::connect(node.url()).await.map(drop);
        assert!(fault(single).contains("redis+cluster://"));
    }
    for on in 0..60 {
        assert!(store.forget(&id(on)).await.unwrap());
        owner(&store, &claim(on, 1)).await;
    }
}

#[tokio::test]
async fn a_waiter_on_another_process_is_woken() {
    let Some(cluster) = RedisCluster::start().await else { return };
    let store = RedisStore::connect(cluster.url()).await.unwrap();
    let other = RedisStore::connect(cluster.url()).await.unwrap();
    let wakeups = listening(&other).await;
    wakes(&store, &other, &wakeups).await;

    let again = wakeups.woken(&id(0));
    for node in &cluster.nodes {
        // Sharded, and only where someone waits.
        assert_eq!(calls(node, "publish").await, 0);
        let () = node.run(redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"])).await;
    }
    ends(again).await;
    wakes(&store, &other, &wakeups).await;
    let mut published = 0;
    for node in &cluster.nodes {
        published += calls(node, "spublish").await;
    }
    assert_eq!(published, 6);
}

#[tokio::test]
async fn keeps_the_contract() {
    let Some(cluster) = RedisCluster::start().await else { return };
    conformance::run(RedisStore::connect(cluster.url()).await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_lost_node_costs_the_others_nothing_and_is_found_again() {
    let Some(mut cluster) = RedisCluster::start().await else { return };
    let store = RedisStore::connect(cluster.url()).await.unwrap();
    // The cluster goes on with the slots it has.
    for node in &cluster.nodes {
        let () = node.run(redis::cmd("CONFIG").arg(&["SET", "cluster-require-full-coverage", "no"])).await;
    }
    for on in 0..30 {
        owner(&store, &claim(on, 1)).await;
    }
    let kept: u64 = cluster.nodes[0].run(&redis::cmd("DBSIZE")).await;
    cluster.nodes[0].kill();
    let mut lost = 0;
    for on in 0..30 {
        match ends(store.claim(&claim(on, 1))).await {
            Ok(claimed) => assert!(matches!(claimed, Claimed::Owner { .. }), "{claimed:?}"),
            Err(StoreError::Fault(_)) => lost += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(lost, kept, "claims lost with one node");

    cluster.nodes[0].restart().await;
    cluster.is_whole().await;
    let start = Instant::now();
    for on in 0..30 {
        while let Err(error) = store.claim(&claim(on, 1)).await {
            assert!(start.elapsed() < Duration::from_secs(10), "{error:?}");
        }
    }
}
