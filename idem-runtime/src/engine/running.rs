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

/// How many attempts run, are being claimed or are being settled, detached from their requests.
#[derive(Debug, Default)]
pub(crate) struct Running {
    count: AtomicUsize,
    idle: Notify,
}

/// One of them, counted until dropped.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Running>);

/// One that runs: operators see it too.
#[derive(Debug)]
pub(crate) struct RunGuard(#[expect(dead_code, reason = "counts until dropped")] Busy);

impl Running {
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.count.fetch_add(1, Ordering::SeqCst);
        Busy(Arc::clone(self))
    }

    pub(crate) fn enter(self: &Arc<Self>) -> RunGuard {
        telemetry::run_begun();
        RunGuard(self.busy())
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
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
