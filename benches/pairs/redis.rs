//! A lock and an answer, as people write it: `SET NX PX`, then `SET PX`, and `GET` for a replay.

use std::sync::Arc;

use idem_runtime::store::RedisStore;
use redis::{aio::MultiplexedConnection, cmd};

use crate::{
    turns::{Turns, rate},
    work::{OUTCOME, fresh, replay, run_once},
};

const TTL: i64 = 3_600_000;

pub(crate) async fn compare(turns: &Turns, url: &str) {
    let store = Arc::new(RedisStore::connect(url).await.unwrap());
    let hand = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    for clients in [1, 32] {
        let ours = async |lasts| {
            let store = Arc::clone(&store);
            rate(clients, lasts, move || {
                let store = Arc::clone(&store);
                async move { run_once(&*store, fresh()).await }
            })
            .await
        };
        let by_hand = async |lasts| {
            let hand = hand.clone();
            rate(clients, lasts, move || set_twice(hand.clone())).await
        };
        turns.compare("redis: claim + complete, of SET NX + SET", clients, None, ours, by_hand).await;

        let id = fresh();
        run_once(&*store, id).await;
        let mut put = hand.clone();
        cmd("SET").arg(&id.as_bytes()[..]).arg(OUTCOME).exec_async(&mut put).await.unwrap();
        let ours = async |lasts| {
            let store = Arc::clone(&store);
            rate(clients, lasts, move || {
                let store = Arc::clone(&store);
                async move { replay(&*store, id).await }
            })
            .await
        };
        let by_hand = async |lasts| {
            let hand = hand.clone();
            rate(clients, lasts, move || {
                let mut hand = hand.clone();
                async move {
                    let _: Vec<u8> = cmd("GET").arg(&id.as_bytes()[..]).query_async(&mut hand).await.unwrap();
                }
            })
            .await
        };
        turns.compare("redis: replay, of GET", clients, None, ours, by_hand).await;
    }
}

async fn set_twice(mut connection: MultiplexedConnection) {
    let id = fresh();
    let id = &id.as_bytes()[..];
    cmd("SET").arg(id).arg("1").arg("NX").arg("PX").arg(TTL).exec_async(&mut connection).await.unwrap();
    cmd("SET").arg(id).arg(OUTCOME).arg("PX").arg(TTL).exec_async(&mut connection).await.unwrap();
}
