//! Outcomes that the store has not acknowledged yet.
//!
//! Their runs have ended and their callers may have been answered, so nobody on this process runs them again, however
//! long the store takes and whoever's lease has lapsed by then.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;

use crate::protocol::{Fingerprint, RecordId};

/// The unacknowledged outcomes of this process.
#[derive(Debug, Default)]
pub(super) struct Pending {
    count: AtomicUsize,
    outcomes: Mutex<HashMap<RecordId, (Fingerprint, Bytes)>>,
}

/// One of them, until dropped.
pub(super) struct PendingOutcome {
    pending: Arc<Pending>,
    id: RecordId,
}

impl Pending {
    pub(super) fn add(self: &Arc<Self>, id: RecordId, fingerprint: Fingerprint, outcome: Bytes) -> PendingOutcome {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.insert(id, (fingerprint, outcome));
        self.count.fetch_add(1, Ordering::SeqCst);
        PendingOutcome { pending: Arc::clone(self), id }
    }

    pub(super) fn get(&self, id: &RecordId) -> Option<(Fingerprint, Bytes)> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

impl Drop for PendingOutcome {
    fn drop(&mut self) {
        self.pending.outcomes.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        self.pending.count.fetch_sub(1, Ordering::SeqCst);
    }
}
