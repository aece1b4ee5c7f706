//! The limit of SQLite: two durable transactions for each record, by one client.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use idem_runtime::store::SqliteStore;
use rusqlite::Connection;
use tokio::sync::Mutex;

use crate::{
    turns::{Turns, rate},
    work::{OUTCOME, fresh, run_once},
};

async fn compare_with(turns: &Turns, store: SqliteStore, hand: Arc<Mutex<Connection>>, clients: usize, wanted: f64) {
    let ours = async |lasts| {
        let store = store.clone();
        rate(clients, lasts, move || {
            let store = store.clone();
            async move { run_once(&store, fresh()).await }
        })
        .await
    };
    let by_hand = async |lasts| {
        let connection = Arc::clone(&hand).lock_owned().await;
        tokio::task::spawn_blocking(move || two_transactions(&connection, lasts)).await.unwrap()
    };
    turns
        .compare("sqlite: claim + complete, of one client's INSERT + UPDATE", clients, Some(wanted), ours, by_hand)
        .await;
}

fn two_transactions(connection: &Connection, lasts: Duration) -> f64 {
    let mut insert = connection.prepare("INSERT INTO hand (id, state, expires) VALUES (?1, 1, ?2)").unwrap();
    let mut update = connection.prepare("UPDATE hand SET state = 2, answer = ?2 WHERE id = ?1").unwrap();
    let (began, mut done) = (Instant::now(), 0_u32);
    while began.elapsed() < lasts {
        let id = *fresh().as_bytes();
        insert.execute((&id[..], 1_i64)).unwrap();
        update.execute((&id[..], OUTCOME)).unwrap();
        done += 1;
    }
    f64::from(done) / began.elapsed().as_secs_f64()
}

pub(crate) async fn compare(turns: &Turns, folder: &str) {
    let store = SqliteStore::open(format!("{folder}/pairs.db")).unwrap();
    let hand = Connection::open(format!("{folder}/hand.db")).unwrap();
    hand.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE hand (id BLOB PRIMARY KEY, state INTEGER, expires INTEGER, answer BLOB)",
    )
    .unwrap();
    let hand = Arc::new(Mutex::new(hand));
    for (clients, wanted) in [(1, 0.8), (64, 5.0)] {
        compare_with(turns, store.clone(), Arc::clone(&hand), clients, wanted).await;
    }
}
