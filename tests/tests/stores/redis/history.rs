//! Random histories: the scripts decide as the rules do.

use idem_tests::redis::RedisCluster;

use super::*;
use crate::history::try_store;

#[tokio::test(flavor = "multi_thread")]
async fn scripts_decide_as_the_rules_do() {
    let (_server, store) = start!();
    try_store(200, &store);
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_decide_as_the_rules_do_on_a_cluster() {
    let Some(cluster) = RedisCluster::start().await else { return };
    try_store(40, &RedisStore::connect(cluster.url()).await.unwrap());
}
