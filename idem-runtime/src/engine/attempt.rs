//! What a running handler may know of its own attempt.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

use super::Handover;
use crate::protocol::Token;

/// Shared between a run and its handler; filled when the run starts.
#[derive(Debug, Default)]
pub(crate) struct AttemptCell {
    started: Mutex<Option<Started>>,
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
        // A claim that was handed over started before the one it was handed to.
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
    }

    pub(crate) fn started(&self) -> Option<Started> {
        *self.started.lock().unwrap_or_else(PoisonError::into_inner)
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
