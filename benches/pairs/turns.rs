//! Two ways to do one thing, in turns.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// How many turns each has after the first ones, which warm up: many short ones, as what else the machine does comes and goes.
const ROUNDS: usize = 40;
const WARM: usize = 5;
const TURN: Duration = Duration::from_millis(120);

/// The comparisons that are wanted.
pub(crate) struct Turns {
    only: String,
}

impl Turns {
    /// Prints the titles of the table.
    pub(crate) fn begin(only: String) -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        println!(
            "Load of the machine before: {}; the medians of {ROUNDS} turns of {TURN:?} each.\n",
            load.split(' ').next().unwrap_or_default(),
        );
        println!(
            "| what | at once | ours /s | by hand /s | ours of theirs (quartiles) | wanted |\n|---|---:|---:|---:|---:|---:|"
        );
        Self { only }
    }

    /// Prints the rates of both, and the median of their ratios.
    pub(crate) async fn compare(
        &self,
        what: &str,
        clients: usize,
        wanted: Option<f64>,
        mut ours: impl AsyncFnMut(Duration) -> f64,
        mut by_hand: impl AsyncFnMut(Duration) -> f64,
    ) {
        if !what.contains(&self.only) {
            return;
        }
        let (mut rates, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
        for round in 0..WARM + ROUNDS {
            // Who goes first takes turns too.
            let (mine, theirs) = if round % 2 == 0 {
                let mine = ours(TURN).await;
                (mine, by_hand(TURN).await)
            } else {
                let theirs = by_hand(TURN).await;
                (ours(TURN).await, theirs)
            };
            if round >= WARM {
                rates[0].push(mine);
                rates[1].push(theirs);
                ratios.push(mine / theirs);
            }
        }
        for values in rates.iter_mut().chain([&mut ratios]) {
            values.sort_by(f64::total_cmp);
        }
        let wanted = wanted.map_or_else(|| "–".into(), |wanted| format!("{wanted:.2}"));
        println!(
            "| {what} | {clients} | {:.0} | {:.0} | {:.2} ({:.2}–{:.2}) | {wanted} |",
            rates[0][ROUNDS / 2],
            rates[1][ROUNDS / 2],
            ratios[ROUNDS / 2],
            ratios[ROUNDS / 4],
            ratios[ROUNDS * 3 / 4]
        );
    }
}

/// How often so many clients do `work` in a second.
pub(crate) async fn rate<F: Future<Output = ()> + Send + 'static>(
    clients: usize,
    lasts: Duration,
    work: impl Fn() -> F + Clone + Send + 'static,
) -> f64 {
    let (done, began) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            let (work, done) = (work.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while began.elapsed() < lasts {
                    work().await;
                    done.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    done.load(Relaxed) as f64 / began.elapsed().as_secs_f64()
}
