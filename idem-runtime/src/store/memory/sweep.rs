//! Frees what has expired, without anybody asking for it.

use std::time::Duration;

use tokio::{runtime::Handle, task::yield_now, time::sleep};

use super::Shared;
use crate::sync::{Arc, Weak, atomic::Ordering::SeqCst};

/// How late an expired record is freed, at most, on an idle machine.
const EVERY: Duration = Duration::from_millis(250);
/// How many records are freed before others get the lock.
const BATCH: u32 = 128;

/// Starts the sweeper of a store that has none, where there is a runtime to run it.
pub(super) fn start(store: &Arc<Shared>) {
    if !store.sweeping.load(SeqCst)
        && let Ok(runtime) = Handle::try_current()
        && !store.sweeping.swap(true, SeqCst)
    {
        runtime.spawn(sweep(Running(Arc::downgrade(store))));
    }
}

/// Sweeps until the store is empty or dropped.
async fn sweep(running: Running) {
    loop {
        sleep(EVERY).await;
        let Some(store) = running.0.upgrade() else { return };
        for shard in &store.shards {
            while store.free_expired(shard, BATCH) > 0 {
                yield_now().await;
            }
        }
        if store.is_empty() {
            drop(running);
            // A claim that came between the last look and the flag relied on this sweeper.
            if !store.is_empty() {
                start(&store);
            }
            return;
        }
    }
}

/// Clears the flag when the sweeper ends, also when its runtime does.
struct Running(Weak<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(store) = self.0.upgrade() {
            store.sweeping.store(false, SeqCst);
        }
    }
}
