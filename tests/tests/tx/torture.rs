//! Everything goes wrong at once: services and the server are killed at random, clients hang up and retry. The payments
//! table is the ledger.
//!
//! `IDEM_TORTURE_SECONDS` says for how long; a few seconds unless set.

use std::{
    collections::{HashMap, HashSet},
    env,
    hash::{BuildHasher as _, RandomState},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use axum::{Router, extract::State, http::HeaderMap, response::Response, routing::post};
use idem_runtime::{
    Idempotency, idempotent,
    store::{PostgresStore, postgres::Tx},
};
use idem_tests::{
    postgres::{Postgres, execute, pool},
    process::{Process, free_port},
};
use sqlx::postgres::PgPoolOptions;

use crate::app::{App, Failed, Held, PAYMENTS, insert, paid};

const SERVICES: usize = 2;
const CLIENTS: usize = 12;

/// Writes in two steps, with a while between them in which it may be killed.
#[idempotent(ttl = "24h", lease = "5s")]
async fn pay(mut tx: Tx, headers: HeaderMap, State(_): State<Held>) -> Result<Response, Failed> {
    let id = insert(&mut tx, &headers, 1).await?;
    tokio::time::sleep(Duration::from_millis(random(15))).await;
    sqlx::query("UPDATE payments SET cents = 2 WHERE id = $1").bind(id).execute(&mut *tx).await?;
    Ok(paid(201, id))
}

fn random(below: u64) -> u64 {
    RandomState::new().hash_one(()) % below
}

/// A service in a process of its own, killed when dropped.
fn service(url: &str, port: u16) -> Process {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "torture::as_a_service"]).env("IDEM_TEST_SERVICE", format!("{port} {url}"));
    Process::start(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null())).unwrap()
}

/// What the other processes do; nothing in this one.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_service() {
    let Ok(told) = env::var("IDEM_TEST_SERVICE") else { return };
    let (port, url) = told.split_once(' ').unwrap();
    let options = PgPoolOptions::new().max_connections(6).acquire_timeout(Duration::from_secs(1));
    let pool = options.test_before_acquire(false).connect_lazy(url).unwrap();
    let idempotency = Idempotency::new(PostgresStore::new(pool.clone()));
    let app = App { idempotency, pool, held: Held::default() };
    let router = Router::new().route("/pay", post(pay)).with_state(app);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    ended().await;
}

/// Ends when the parent does: its end of the pipe closes.
pub(crate) async fn ended() {
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await.unwrap().unwrap();
}

/// What the clients were told.
#[derive(Default)]
struct Told {
    paid: Mutex<HashMap<String, HashSet<i64>>>,
    refused: Mutex<HashMap<u16, usize>>,
    replays: AtomicUsize,
    lost: AtomicUsize,
}

/// Sends one key after another, each until it is acknowledged, as clients with little patience do.
async fn client(number: usize, ports: [u16; SERVICES], told: &Told, stop: &AtomicBool) {
    let http = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let mut at = 0;
    while !stop.load(SeqCst) {
        at += 1;
        // Two clients share each key.
        let key = format!("{}-{at}", number / 2);
        loop {
            let port = ports[usize::try_from(random(2)).unwrap()];
            let request = http.post(format!("http://127.0.0.1:{port}/pay")).header("idempotency-key", &key);
            let patience = Duration::from_millis(if random(4) == 0 { random(20) } else { 5000 });
            let Ok(answer) = request.timeout(patience).send().await else {
                told.lost.fetch_add(1, SeqCst);
                tokio::time::sleep(Duration::from_millis(random(20))).await;
                continue;
            };
            let (status, replayed) = (answer.status().as_u16(), answer.headers().contains_key("idempotent-replayed"));
            let Ok(body) = answer.text().await else { continue };
            if status == 201 {
                told.replays.fetch_add(usize::from(replayed), SeqCst);
                told.paid.lock().unwrap().entry(key).or_default().insert(body.parse().unwrap());
                break;
            }
            assert!(
                matches!(status, 409 | 503) && !body.contains("idempotency_outcome_unknown"),
                "{key}: {status} {body}"
            );
            *told.refused.lock().unwrap().entry(status).or_default() += 1;
            tokio::time::sleep(Duration::from_millis(random(20))).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_is_right_whatever_is_killed() {
    let Some(mut server) = Postgres::start() else { return };
    let lasts = env::var("IDEM_TORTURE_SECONDS").map_or(6, |seconds| seconds.parse().unwrap());
    let admin = pool(&server.url(), 1).await;
    PostgresStore::new(admin.clone()).migrate().await.unwrap();
    execute(&admin, PAYMENTS).await;
    drop(admin);
    let ports: [u16; SERVICES] = std::array::from_fn(|_| free_port());
    let mut services = ports.map(|port| service(&server.url(), port));
    let (told, stop) = (Arc::<Told>::default(), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (told, stop) = (Arc::clone(&told), Arc::clone(&stop));
            tokio::spawn(async move { client(number, ports, &told, &stop).await })
        })
        .collect();
    let (started, mut kills, mut crashes) = (Instant::now(), 0, 0);
    while started.elapsed() < Duration::from_secs(lasts) {
        tokio::time::sleep(Duration::from_millis(100 + random(400))).await;
        if random(6) == 0 {
            crashes += 1;
            if random(2) == 0 {
                server.kill();
            } else {
                server.stop();
            }
            server.restart();
        } else {
            kills += 1;
            let which = usize::try_from(random(2)).unwrap();
            services[which].kill();
            services[which] = service(&server.url(), ports[which]);
        }
    }
    // Nothing is killed any more: whoever waits for an acknowledgement gets it.
    stop.store(true, SeqCst);
    for client in clients {
        tokio::time::timeout(Duration::from_mins(1), client).await.expect("a key was never acknowledged").unwrap();
    }
    drop(services);

    let direct = pool(&server.url(), 1).await;
    let rows: Vec<(String, i64, i64)> =
        sqlx::query_as("SELECT key, id, cents FROM payments").fetch_all(&direct).await.unwrap();
    let paid = told.paid.lock().unwrap();
    let mut ledger = HashMap::new();
    for (key, id, cents) in &rows {
        assert_eq!(*cents, 2, "half a payment: {key}");
        assert_eq!(ledger.insert(key.as_str(), *id), None, "{key} has two rows");
    }
    for (key, ids) in paid.iter() {
        assert_eq!(ids.len(), 1, "{key} was told of several payments");
        assert!(ids.contains(&ledger[key.as_str()]), "{key} was told of a row that isn't there");
    }
    println!(
        "{} keys acknowledged, {} replays, {} requests without an answer, refused {:?}, {} rows; {kills} services and \
         {crashes} servers ended",
        paid.len(),
        told.replays.load(SeqCst),
        told.lost.load(SeqCst),
        told.refused.lock().unwrap(),
        rows.len(),
    );
    assert!(paid.len() > 20 && kills + crashes > 3, "little was tried");
}
