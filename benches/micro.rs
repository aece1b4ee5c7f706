//! Times of the parts, in this process: the figures of one run compare, those of two machines don't.
//!
//! `scripts/bench micro` runs it with servers of its own; alone it takes their URLs from `IDEM_BENCH_REDIS` and
//! `IDEM_BENCH_POSTGRES`, and says which it did without.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::panic,
    reason = "a measurement ends where it fails"
)]

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::Router;
use bytes::Bytes;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use http::HeaderMap;
use idem_benches::{annotated, bare_route, bodies::KINDS, fingerprint_of, fresh_key, key_length, request};
use idem_runtime::{
    Idempotency,
    store::{
        Claim, Claimed, Completion, DynStore, Fingerprint, MemoryStore, PostgresStore, RecordId, RedisStore,
        SqliteStore, Store, Token,
    },
};
use tokio::runtime::Runtime;
use tower::{Service as _, ServiceExt as _};

fn keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("key");
    for (name, key) in [("bare", fresh_key()), ("quoted", format!("\"{}\"", fresh_key()))] {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", key.parse().unwrap());
        group.bench_function(name, |bench| bench.iter(|| key_length(black_box(&headers))));
    }
}

fn fingerprints(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fingerprint");
    for size in [200, 65_536, 1_048_576] {
        for kind in &KINDS {
            let body = kind.body(size);
            group.throughput(Throughput::Bytes(body.len() as u64));
            group.bench_function(format!("{}/{size}", kind.name), |bench| {
                bench.iter(|| fingerprint_of(kind.content_type, black_box(&body)));
            });
        }
    }
}

/// The wrapper against the bare handler, without a socket.
fn services(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("request");
    let memory = annotated(Idempotency::new(MemoryStore::new()));
    let cached = annotated(Idempotency::builder(MemoryStore::new()).local_cache(64 << 20).build());
    for router in [&memory, &cached] {
        runtime.block_on(router.clone().oneshot(request("/guarded", Some("k1")))).unwrap();
    }
    let bare = Router::new().route("/bare", bare_route());
    let fixed = || Some("k1".to_owned());
    let none = || None;
    let fresh = || Some(fresh_key());
    send(&mut group, &runtime, "bare", bare, "/bare", none);
    send(&mut group, &runtime, "optional, no key", memory.clone(), "/optional", none);
    send(&mut group, &runtime, "replay", memory.clone(), "/guarded", fixed);
    send(&mut group, &runtime, "replay, local cache", cached, "/guarded", fixed);
    send(&mut group, &runtime, "first run", memory, "/guarded", fresh);
}

fn send(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    name: &str,
    mut router: Router,
    path: &str,
    key: impl Fn() -> Option<String>,
) {
    group.bench_function(name, |bench| {
        bench.iter_batched(
            || request(path, key().as_deref()),
            |request| runtime.block_on(router.call(request)).unwrap(),
            BatchSize::SmallInput,
        );
    });
}

const TTL: Duration = Duration::from_hours(1);
const OUTCOME: &[u8] = &[b'x'; 128];

fn claim(id: RecordId) -> Claim {
    let mut token = [0; 16];
    getrandom::fill(&mut token).unwrap();
    Claim {
        id,
        token: Token::from_bytes(token),
        fingerprint: Fingerprint::from_bytes([1; Fingerprint::LENGTH]),
        older_fingerprints: Vec::new(),
        hold: false,
        lease: Duration::from_secs(30),
        ttl: TTL,
        waiting: false,
    }
}

fn fresh() -> Claim {
    claim(RecordId::derive("", "POST /payments", None, fresh_key().as_bytes()))
}

async fn run_once(store: &impl Store, claim: &Claim) {
    let Ok(Claimed::Owner { epoch, attempt }) = store.claim(claim).await else { panic!("not the owner") };
    let Claim { id, token, fingerprint, ttl, .. } = *claim;
    let outcome = Bytes::from_static(OUTCOME);
    let completion = Completion { id, token, epoch, attempt, fingerprint, ttl, outcome };
    let _ = store.complete(&completion).await.unwrap();
}

/// What is measured of a store, `clients` at once: claim and completion of new records, and replays of one.
fn store(criterion: &mut Criterion, runtime: &Runtime, store: &(impl Store + Clone), clients: u64) {
    let name = store.name();
    let one = fresh();
    runtime.block_on(run_once(store, &one));
    let mut group = criterion.benchmark_group(format!("{name}/{clients} at once"));
    group.sample_size(10).measurement_time(Duration::from_secs(2));
    let (ours, theirs) = (store.clone(), store.clone());
    at_once(&mut group, runtime, "claim + complete", clients, move || {
        let store = ours.clone();
        async move { run_once(&store, &fresh()).await }
    });
    at_once(&mut group, runtime, "replay", clients, move || {
        let (store, again) = (theirs.clone(), claim(one.id));
        async move { assert!(matches!(store.claim(&again).await, Ok(Claimed::Replay { .. }))) }
    });
}

/// Times `work`, done by so many clients at once.
fn at_once<F: Future<Output = ()> + Send + 'static>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    name: &str,
    clients: u64,
    work: impl Fn() -> F + Clone + Send + 'static,
) {
    group.bench_function(name, |bench| {
        bench.to_async(runtime).iter_custom(|times| {
            let work = work.clone();
            async move {
                let began = Instant::now();
                let each = times.div_ceil(clients);
                let tasks: Vec<_> = (0..clients)
                    .map(|_| {
                        let work = work.clone();
                        tokio::spawn(async move {
                            for _ in 0..each {
                                work().await;
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
                began.elapsed().mul_f64(times as f64 / (each * clients) as f64)
            }
        });
    });
}

fn stores(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    store(criterion, &runtime, &(Arc::new(MemoryStore::new()) as Arc<dyn DynStore>), 1);

    let folder = tempfile::tempdir().unwrap();
    let sqlite: Arc<dyn DynStore> = Arc::new(SqliteStore::open(folder.path().join("idem.db")).unwrap());
    store(criterion, &runtime, &sqlite, 1);
    store(criterion, &runtime, &sqlite, 64);

    if let Ok(url) = std::env::var("IDEM_BENCH_REDIS") {
        let redis: Arc<dyn DynStore> = Arc::new(runtime.block_on(RedisStore::connect(&url)).unwrap());
        store(criterion, &runtime, &redis, 1);
    } else {
        println!("SKIPPED: Redis, as IDEM_BENCH_REDIS has no URL");
    }
    if let Ok(url) = std::env::var("IDEM_BENCH_POSTGRES") {
        for clients in [1_u32, 16] {
            let pool = sqlx::postgres::PgPoolOptions::new().min_connections(clients).max_connections(clients);
            let pool = runtime.block_on(pool.connect(&url)).unwrap();
            let postgres = PostgresStore::new(pool);
            runtime.block_on(postgres.migrate()).unwrap();
            store(criterion, &runtime, &(Arc::new(postgres) as Arc<dyn DynStore>), clients.into());
        }
    } else {
        println!("SKIPPED: PostgreSQL, as IDEM_BENCH_POSTGRES has no URL");
    }
}

criterion_group!(
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(1)).sample_size(20);
    targets = keys, fingerprints, services, stores
);
criterion_main!(benches);
