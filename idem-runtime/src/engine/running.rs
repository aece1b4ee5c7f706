//! Counts what runs detached, so that a shutdown can wait for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::telemetry;

/// How many attempts run detached from their requests.
#[derive(Debug, Default)]
pub(crate) struct Running {
    count: AtomicUsize,
    idle: Notify,
}

/// One of them, counted until dropped.
#[derive(Debug)]
pub(crate) struct RunGuard(Arc<Running>);

impl Running {
    pub(crate) fn enter(self: &Arc<Self>) -> RunGuard {
        self.count.fetch_add(1, Ordering::SeqCst);
        telemetry::run_begun();
        RunGuard(Arc::clone(self))
    }

    /// Waits until nothing runs; how many still do when `timeout` is over.
    pub(crate) async fn drain(&self, timeout: Duration) -> usize {
        let idle = async {
            loop {
                let notified = self.idle.notified();
                if self.count.load(Ordering::SeqCst) == 0 {
                    return;
                }
                notified.await;
            }
        };
        let _ = tokio::time::timeout(timeout, idle).await;
        self.count.load(Ordering::SeqCst)
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        telemetry::run_ended();
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
