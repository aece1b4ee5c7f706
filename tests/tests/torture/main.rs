//! Server processes of the payments example on one store, under clients that repeat themselves, while processes and the store
//! are killed, stopped and restarted. What was really charged stands in a ledger outside of the store.
//!
//! `scripts/torture` runs it for a minute; `TORTURE_SECONDS`, `TORTURE_SEED` and `TORTURE_UNKNOWN` (`retry` or `hold`) are its
//! options.

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
use clients::{Case, Clients, ROUTES, Route};
use faults::Faults;
use futures::{StreamExt as _, future::join_all, stream};
use ledger::Ledger;
use servers::Servers;
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
    let unknown = env::var("TORTURE_UNKNOWN").unwrap_or_default();
    let routes: Vec<_> = ROUTES.into_iter().filter(|route| unknown.is_empty() || route.unknown == unknown).collect();
    assert!(!routes.is_empty(), "TORTURE_UNKNOWN={unknown} is neither retry nor hold");
    routes
}

async fn torture(victim: Victim) {
    let name = victim.name();
    let time = Duration::from_secs(setting("TORTURE_SECONDS").unwrap_or(12));
    let seed = setting("TORTURE_SEED").unwrap_or_else(Chance::fresh_seed);
    println!("{name}: TORTURE_SEED={seed}, {} s", time.as_secs());
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(folder.path().join("ledger"));
    let faults = Arc::new(Faults::default());
    let servers = Arc::new(Servers::start(SERVERS, &victim.url(), ledger.path(), faults.clone()).await);
    let clients = Arc::new(Clients::new(servers.clone(), routes()));

    let (until, began) = (Instant::now() + time, faults::now());
    let playing = join_all((0..CLIENTS).map(|number| {
        let clients = clients.clone();
        tokio::spawn(async move { clients.play(Chance::new(seed, number), until).await })
    }));
    let (played, (), victim) = tokio::join!(
        playing,
        servers.torture(Chance::new(seed, 1000), until),
        victim.torture(Chance::new(seed, 2000), until, &faults, &servers),
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
    drop(servers);
    drop(victim);
    verdict::pronounce(name, &cases, &ledger.effects(), &faults);
}

macro_rules! on {
    ($($store:ident $feature:literal)+) => {
        $(#[cfg(feature = $feature)]
        #[tokio::test(flavor = "multi_thread")]
        async fn $store() {
            if let Some(victim) = Victim::$store().await {
                torture(victim).await;
            }
        })+
    };
}

on!(sqlite "sqlite" postgres "postgres" redis "redis");
