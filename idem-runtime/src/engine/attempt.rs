//! What a running handler may know of its own attempt.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

use super::Handover;
use crate::protocol::Token;

/// Shared between a run and its handler; filled when the run starts.
#[derive(Debug, Default)]
pub(crate) struct AttemptCell {
    started: OnceLock<Started>,
    lost: AtomicBool,
    lost_notify: Notify,
    handover: Handover,
}

/// The names of a running attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    pub(crate) token: Token,
    pub(crate) epoch: u64,
    pub(crate) number: u32,
}

impl AttemptCell {
    pub(crate) fn start(&self, started: Started) {
        // A cell serves one request and a request starts one run.
        let _ = self.started.set(started);
    }

    pub(crate) fn started(&self) -> Option<Started> {
        self.started.get().copied()
    }

    /// The transaction that the run shares with its record, where a parameter asks for one.
    pub(crate) fn handover(&self) -> &Handover {
        &self.handover
    }

    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::SeqCst);
        self.lost_notify.notify_waiters();
    }

    pub(crate) async fn lost(&self) {
        loop {
            let notified = self.lost_notify.notified();
            if self.lost.load(Ordering::SeqCst) {
                return;
            }
            notified.await;
        }
    }
}
