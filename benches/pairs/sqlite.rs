//! The limit of SQLite: two durable transactions for each record, by one client.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use idem_runtime::store::SqliteStore;
use rusqlite::Connection;
use tokio::sync::Mutex;

use crate::{
    turns::{Turns, rate},
    work::{OUTCOME, fresh, run_once},
};

type Shared = Arc<Mutex<Connection>>;

/// Two durable transactions by hand: the second one's parameters are the id and the answer, the first one's the id and
/// when it expires.
struct Hand {
    file: &'static str,
    schema: &'static str,
    insert: &'static str,
    update: &'static str,
    what: &'static str,
}

const HANDS: [Hand; 2] = [
    Hand {
        file: "hand.db",
        schema: "CREATE TABLE hand (id BLOB PRIMARY KEY, state INTEGER, expires INTEGER, answer BLOB)",
        insert: "INSERT INTO hand (id, state, expires) VALUES (?1, 1, ?2)",
        update: "UPDATE hand SET state = 2, answer = ?2 WHERE id = ?1",
        what: "sqlite: claim + complete, of one client's INSERT + UPDATE",
    },
    // The store's own columns and its index to purge by.
    Hand {
        file: "same.db",
        schema: include_str!("../../idem-runtime/src/store/sql/sqlite.sql"),
        insert: "INSERT INTO idem_record VALUES
            (?1, 1, randomblob(16), ?2, 1, 0, randomblob(33), randomblob(16), ?2, ?2, NULL)",
        update: "UPDATE idem_record SET state = 2, expires_at = expires_at + 1, outcome = ?2 WHERE id = ?1",
        what: "sqlite: claim + complete, of one client's INSERT + UPDATE of the same row",
    },
];

async fn compare_with(
    turns: &Turns,
    store: &SqliteStore,
    connection: &Shared,
    hand: &'static Hand,
    clients: usize,
    wanted: f64,
) {
    let ours = async |lasts| {
        let store = store.clone();
        rate(clients, lasts, move || {
            let store = store.clone();
            async move { run_once(&store, fresh()).await }
        })
        .await
    };
    let by_hand = async |lasts| {
        let connection = Arc::clone(connection).lock_owned().await;
        tokio::task::spawn_blocking(move || two_transactions(&connection, hand, lasts)).await.unwrap()
    };
    turns.compare(hand.what, clients, Some(wanted), ours, by_hand).await;
}

fn two_transactions(connection: &Connection, hand: &Hand, lasts: Duration) -> f64 {
    let mut insert = connection.prepare(hand.insert).unwrap();
    let mut update = connection.prepare(hand.update).unwrap();
    let (began, mut done) = (Instant::now(), 0_u32);
    while began.elapsed() < lasts {
        let id = *fresh().as_bytes();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        insert.execute((&id[..], i64::try_from(now).unwrap())).unwrap();
        update.execute((&id[..], OUTCOME)).unwrap();
        done += 1;
    }
    f64::from(done) / began.elapsed().as_secs_f64()
}

pub(crate) async fn compare(turns: &Turns, folder: &str) {
    let store = SqliteStore::open(format!("{folder}/pairs.db")).unwrap();
    for hand in &HANDS {
        let connection = Connection::open(format!("{folder}/{}", hand.file)).unwrap();
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").unwrap();
        connection.execute_batch(hand.schema).unwrap();
        let connection = Arc::new(Mutex::new(connection));
        for (clients, wanted) in [(1, 0.8), (64, 5.0)] {
            compare_with(turns, &store, &connection, hand, clients, wanted).await;
        }
    }
}
