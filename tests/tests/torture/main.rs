//! Server processes of the payments example on one store, under clients that repeat themselves, while processes and the store
//! are killed, stopped and restarted. What was really charged stands in a ledger outside of the store; of the example whose
//! payments commit with their records, the payments are the ledger.
//!
//! `scripts/torture` runs it for a minute; `IDEM_TORTURE_SECONDS`, `IDEM_TORTURE_SEED` and `IDEM_TORTURE_UNKNOWN` (`retry` or
//! `hold`) are its options.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests, outside of their functions"
)]
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]

mod chance;
mod clients;
mod faults;
mod ledger;
mod servers;
mod store;
mod verdict;

use std::{
    env,
    sync::Arc,
    time::{Duration, Instant},
};

use chance::Chance;
use clients::{Case, Clients, Promise, ROUTES, Route};
use faults::Faults;
use futures::{StreamExt as _, future::join_all, stream};
use ledger::Ledger;
use servers::{BANK_MS, Servers};
#[cfg(feature = "postgres")]
use sqlx::{Connection as _, Executor as _};
use store::Victim;

/// As in the example.
const LEASE: Duration = Duration::from_secs(5);
const SERVERS: usize = 3;
const CLIENTS: u64 = 12;

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is not understood")))
}

fn routes() -> Vec<Route> {
    let unknown = env::var("IDEM_TORTURE_UNKNOWN").unwrap_or_default();
    let only = match &*unknown {
        "" => return ROUTES.to_vec(),
        "retry" => Promise::Retry,
        "hold" => Promise::Hold,
        _ => panic!("IDEM_TORTURE_UNKNOWN={unknown} is neither retry nor hold"),
    };
    ROUTES.into_iter().filter(|route| route.promise == only).collect()
}

async fn torture(name: &str, victim: Victim, routes: Vec<Route>, ledger: Ledger) {
    let time = Duration::from_secs(setting("IDEM_TORTURE_SECONDS").unwrap_or(12));
    let seed = setting("IDEM_TORTURE_SEED").unwrap_or_else(Chance::fresh_seed);
    println!("{name}: IDEM_TORTURE_SEED={seed}, {} s", time.as_secs());
    let faults = Arc::new(Faults::default());
    let servers = Arc::new(Servers::start(SERVERS, victim.url(), ledger, faults.clone()).await);
    #[cfg(feature = "postgres")]
    if let Ledger::Table(url) = servers.ledger() {
        slow_down(url).await;
    }
    let clients = Arc::new(Clients::new(servers.clone(), routes));

    let (until, began) = (Instant::now() + time, faults::now());
    let playing = join_all((0..CLIENTS).map(|number| {
        let clients = clients.clone();
        tokio::spawn(async move { clients.play(Chance::new(seed, number), until).await })
    }));
    let (played, (), victim, ()) = tokio::join!(
        playing,
        servers.torture(Chance::new(seed, 1000), until),
        victim.torture(Chance::new(seed, 2000), until, &faults, &servers),
        interrupt(servers.ledger(), Chance::new(seed, 4000), until, &faults),
    );
    let mut cases: Vec<Case> = played.into_iter().flat_map(|cases| cases.expect("a client panicked")).collect();
    println!(
        "{name}: {} % of the time no fault of the store would explain a second effect",
        faults.quiet(began, LEASE)
    );
    servers.all_up().await;
    // Everybody who was answered asks once more, and so do those who never were.
    let asked = Instant::now();
    stream::iter(&mut cases).for_each_concurrent(64, |case| clients.ask_at_last(case)).await;
    println!("{name}: asked for {} keys again in {} ms", cases.len(), asked.elapsed().as_millis());
    let effects = servers.ledger().effects().await;
    drop(servers);
    drop(victim);
    verdict::pronounce(name, &cases, &effects, &faults);
}

/// Ends connections in the midst of their work, where the effect is in their transaction.
async fn interrupt(ledger: &Ledger, mut chance: Chance, until: Instant, faults: &Faults) {
    #[cfg(feature = "postgres")]
    if let Ledger::Table(url) = ledger {
        let end_one = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
                       AND datname = current_database() AND state <> 'idle' ORDER BY random() LIMIT 1";
        while Instant::now() < until {
            tokio::time::sleep(chance.time(20, 200)).await;
            let from = faults::now();
            // The server may just be down.
            let ended = async { sqlx::PgConnection::connect(url).await?.fetch_optional(end_one).await };
            if let Ok(Ok(Some(_))) = tokio::time::timeout(Duration::from_secs(1), ended).await {
                faults.note("connection ended", faults::Whom::Process(0), from);
            }
        }
    }
    let _ = (ledger, &mut chance, until, faults);
}

/// Makes a payment take the remainder of its amount, as at the example's bank.
#[cfg(feature = "postgres")]
async fn slow_down(url: &str) {
    let trigger = format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN PERFORM pg_sleep(NEW.amount % {BANK_MS} / 1000.0); RETURN NULL; END';
         CREATE TRIGGER slow AFTER INSERT ON payments FOR EACH ROW EXECUTE FUNCTION slow();"
    );
    idem_tests::postgres::execute(&idem_tests::postgres::pool(url, 1).await, trigger).await;
}

macro_rules! on {
    ($($store:ident $feature:literal)+) => {
        $(#[cfg(feature = $feature)]
        #[tokio::test(flavor = "multi_thread")]
        async fn $store() {
            let Some(victim) = Victim::$store().await else { return };
            let folder = tempfile::tempdir().unwrap();
            torture(victim.name(), victim, routes(), Ledger::File(folder.path().join("ledger"))).await;
        })+
    };
}

on!(sqlite "sqlite" postgres "postgres" redis "redis");

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn transaction() {
    let Some(victim) = Victim::postgres().await else { return };
    let ledger = Ledger::Table(victim.url());
    torture("transaction", victim, vec![clients::TRANSACTION], ledger).await;
}
