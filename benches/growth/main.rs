//! How cost grows: claims per second and bytes per record from a thousand records on, what a purge does to those who
//! claim meanwhile, many keys at once, and one hot key.
//!
//! `growth MOST FOLDER [URL…]`: up to MOST records in memory, in SQLite in FOLDER, and on the servers of the URLs. Tables go
//! to the output, the plot to FOLDER/growth.svg. `IDEM_BENCH_STORE` names the only store to look at, and with `IDEM_BENCH_PURGE`
//! only its purge is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::panic,
    reason = "a measurement ends where it fails"
)]

mod load;
mod place;
mod plot;

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use idem_benches::{annotated, request};
use idem_runtime::{
    Idempotency,
    store::{PurgeLimits, Store as _},
};
use tower::ServiceExt as _;

use load::{Load, fresh};
use place::Place;

const HOUR: Duration = Duration::from_hours(1);
const SAMPLE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let most: u64 = arguments.next().and_then(|most| most.parse().ok()).unwrap_or(1_000_000);
    let folder = arguments.next().unwrap_or_else(|| ".".into());
    let mut places = vec![Place::memory(), Place::sqlite(&folder)];
    for url in arguments {
        places.push(Place::server(&url).await);
    }
    if let Ok(only) = std::env::var("IDEM_BENCH_STORE") {
        places.retain(|place| place.name() == only);
    }
    let machine = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("Load of the machine before: {}\n", machine.split(' ').next().unwrap_or_default());

    if std::env::var_os("IDEM_BENCH_PURGE").is_some() {
        return purges(&mut places, most).await;
    }
    let mut lines = Vec::new();
    println!("| store | records | claim + complete /s | p99 ms | bytes per record |\n|---|---:|---:|---:|---:|");
    for place in &mut places {
        let mut points = Vec::new();
        let empty = place.bytes().await;
        let mut records = 0;
        for size in [1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
            if size > most {
                break;
            }
            place.fill(size - records.min(size), HOUR).await;
            records = size.max(records);
            let each = place.bytes().await.saturating_sub(empty) / records;
            let loaded = Load { clients: 64, pause: Duration::ZERO }.run(place.store(), SAMPLE).await;
            records += loaded.done();
            println!("| {} | {size} | {:.0} | {:.2} | {each} |", place.name(), loaded.rate(), loaded.p99());
            points.push((size as f64, loaded.rate()));
        }
        let first = points.first().map_or(1.0, |(_, rate)| *rate);
        let points = points.into_iter().map(|(size, rate)| (size, rate / first)).collect();
        lines.push(plot::Line { name: place.name().into(), points });
    }
    let svg = plot::draw("claim + complete per second, relative to 1,000 records", &lines, 3, 7);
    std::fs::write(format!("{folder}/growth.svg"), svg).unwrap();

    purges(&mut places, most.min(1_000_000)).await;

    println!("\n| store | keys at once | claim + complete /s | p99 ms |\n|---|---:|---:|---:|");
    for place in &places {
        for clients in [1, 64, 1024] {
            let loaded = Load { clients, pause: Duration::ZERO }.run(place.store(), SAMPLE).await;
            println!("| {} | {clients} | {:.0} | {:.2} |", place.name(), loaded.rate(), loaded.p99());
        }
    }

    println!("\n| store | 1,000 duplicates of a 50 ms handler: runs | all answered after ms |\n|---|---:|---:|");
    for place in &places {
        hot_key(place).await;
    }
}

async fn purges(places: &mut [Place], records: u64) {
    println!(
        "\n| store | expired records | p99 ms before | while they are purged | ratio | purged per second |\n|---|---:|---:|---:|---:|---:|"
    );
    for place in places {
        purge_under_load(place, records).await;
    }
}

async fn purge_under_load(place: &mut Place, records: u64) {
    if place.expires_by_itself() {
        println!("| {} | – | – | – | – | expired keys go by themselves |", place.name());
        return;
    }
    // About a thousand records a second: what more would show is that the machine has no more to give.
    let load = || Load { clients: 16, pause: Duration::from_millis(15) };
    let before = load().run(place.store(), SAMPLE).await;
    place.fill(records, Duration::from_millis(1)).await;
    let store = place.store();
    let purging = tokio::spawn(async move {
        let (began, mut removed) = (Instant::now(), 0);
        loop {
            let purged = store.purge(PurgeLimits::default()).await.unwrap();
            removed += purged.removed;
            if !purged.more {
                return (removed, began.elapsed());
            }
        }
    });
    let while_purging = load().run_until(place.store(), || purging.is_finished()).await;
    let (removed, took) = purging.await.unwrap();
    println!(
        "| {} | {records} | {:.2} | {:.2} | {:.2} | {:.0} |",
        place.name(),
        before.p99(),
        while_purging.p99(),
        while_purging.p99() / before.p99(),
        removed as f64 / took.as_secs_f64()
    );
}

async fn hot_key(place: &Place) {
    let runs_before = idem_benches::slow_runs();
    let router = annotated(Idempotency::new(place.store()));
    let key = fresh().id.to_string() + &idem_benches::fresh_key();
    let began = Instant::now();
    let requests: Vec<_> =
        (0..1000).map(|_| tokio::spawn(router.clone().oneshot(request("/slow", Some(&key))))).collect();
    for request in requests {
        assert_eq!(request.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    let (runs, took) = (idem_benches::slow_runs() - runs_before, began.elapsed());
    println!("| {} | {runs} | {:.0} |", place.name(), took.as_secs_f64() * 1000.0);
}
