//! Clients that claim and complete as fast as they can.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use idem_runtime::store::{Ack, Claim, Claimed, Completion, Fingerprint, RecordId, Store, Token};

/// An answer as the application stores it: status, content type and 92 bytes of JSON.
pub(crate) const OUTCOME: &[u8] = &[b'x'; 128];

/// How many clients, and how long each pauses between two records: without a pause they take all there is.
pub(crate) struct Load {
    pub(crate) clients: usize,
    pub(crate) pause: Duration,
}

/// What they did.
pub(crate) struct Loaded {
    took: Duration,
    /// Microseconds of each claim and completion, sorted.
    times: Vec<u32>,
}

impl Load {
    pub(crate) async fn run(self, store: impl Store + Clone, during: Duration) -> Loaded {
        let end = Instant::now() + during;
        self.run_until(store, || Instant::now() >= end).await
    }

    pub(crate) async fn run_until(self, store: impl Store + Clone, over: impl Fn() -> bool) -> Loaded {
        let (began, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let clients: Vec<_> =
            (0..self.clients).map(|_| tokio::spawn(client(store.clone(), Arc::clone(&stop), self.pause))).collect();
        while !over() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.store(true, Relaxed);
        let mut times = Vec::new();
        for client in clients {
            times.extend(client.await.unwrap());
        }
        times.sort_unstable();
        Loaded { took: began.elapsed(), times }
    }
}

async fn client(store: impl Store, stop: Arc<AtomicBool>, pause: Duration) -> Vec<u32> {
    let mut times = Vec::new();
    while !stop.load(Relaxed) {
        let claim = fresh();
        let began = Instant::now();
        complete(&store, &claim).await;
        times.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
        // The memory store never waits, and others want the thread too.
        if pause.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pause).await;
        }
    }
    times
}

/// Claims and completes.
pub(crate) async fn complete(store: &impl Store, claim: &Claim) {
    let Ok(Claimed::Owner { epoch, attempt }) = store.claim(claim).await else { panic!("not the owner") };
    let Claim { id, token, fingerprint, ttl, .. } = *claim;
    let outcome = Bytes::from_static(OUTCOME);
    let completion = Completion { id, token, epoch, attempt, fingerprint, ttl, outcome };
    assert_eq!(store.complete(&completion).await.unwrap(), Ack::Done);
}

/// A claim of a new record.
pub(crate) fn fresh() -> Claim {
    let mut bytes = [0; 48];
    getrandom::fill(&mut bytes).unwrap();
    let (id, token) = bytes.split_at(32);
    Claim {
        id: RecordId::from_bytes(id.try_into().unwrap()),
        token: Token::from_bytes(token.try_into().unwrap()),
        fingerprint: Fingerprint::from_bytes([1; Fingerprint::LENGTH]),
        older_fingerprints: Vec::new(),
        hold: false,
        lease: Duration::from_secs(30),
        ttl: Duration::from_hours(1),
        waiting: false,
    }
}

impl Loaded {
    pub(crate) fn done(&self) -> u64 {
        self.times.len() as u64
    }

    pub(crate) fn rate(&self) -> f64 {
        self.times.len() as f64 / self.took.as_secs_f64()
    }

    /// Milliseconds.
    pub(crate) fn p99(&self) -> f64 {
        self.times.get(self.times.len() * 99 / 100).map_or(0.0, |micros| f64::from(*micros) / 1000.0)
    }
}
