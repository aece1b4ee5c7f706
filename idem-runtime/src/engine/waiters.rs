//! Wakes duplicates that wait for an attempt, and bounds how many may wait.

use std::collections::HashMap;

use tokio::sync::{Notify, futures::OwnedNotified};

use crate::{
    protocol::RecordId,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// At most this many duplicates of one record wait on a process; more get 409.
const PER_RECORD: usize = 1024;
/// At most this many duplicates wait on a process in all.
const IN_ALL: usize = 16_384;

/// Who waits for which record in this process.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: AtomicUsize,
    records: Mutex<HashMap<RecordId, Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    notify: Arc<Notify>,
    waiting: usize,
}

/// A place in the queue, given back when dropped.
#[derive(Debug)]
pub(crate) struct Waiter {
    waiters: Arc<Waiters>,
    id: RecordId,
    notify: Arc<Notify>,
}

impl Waiters {
    /// Takes a place, unless there are too many.
    pub(crate) fn join(self: &Arc<Self>, id: RecordId) -> Option<Waiter> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if self.waiting.load(Ordering::Relaxed) >= IN_ALL {
            return None;
        }
        let entry = records.entry(id).or_default();
        if entry.waiting >= PER_RECORD {
            return None;
        }
        entry.waiting += 1;
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Some(Waiter { waiters: Arc::clone(self), id, notify: Arc::clone(&entry.notify) })
    }

    /// Wakes everyone who waits for `id`.
    pub(crate) fn wake(&self, id: &RecordId) {
        // Settling is the hot path and waiting is rare. A waiter counts itself before it claims again, so one that this
        // load misses finds the record settled.
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = records.get(id) {
            entry.notify.notify_waiters();
        }
    }

    /// Wakes everyone.
    pub(crate) fn wake_all(&self) {
        for entry in self.records.lock().unwrap_or_else(PoisonError::into_inner).values() {
            entry.notify.notify_waiters();
        }
    }
}

impl Waiter {
    /// The next wake-up after this call, even if it comes before the future is polled.
    pub(crate) fn next(&self) -> OwnedNotified {
        Arc::clone(&self.notify).notified_owned()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut records = self.waiters.records.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = records.get_mut(&self.id) {
            entry.waiting -= 1;
            if entry.waiting == 0 {
                records.remove(&self.id);
            }
        }
        self.waiters.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wake_between_asking_and_awaiting_is_not_lost() {
        let waiters = Arc::new(Waiters::default());
        let id = RecordId::from_bytes([1; 32]);
        let waiter = waiters.join(id).unwrap();
        let next = waiter.next();
        waiters.wake(&id);
        next.await;
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let waiters = Arc::new(Waiters::default());
        let id = RecordId::from_bytes([1; 32]);
        let places: Vec<_> = (0..PER_RECORD).map(|_| waiters.join(id).unwrap()).collect();
        assert!(waiters.join(id).is_none());
        assert!(waiters.join(RecordId::from_bytes([2; 32])).is_some());
        drop(places);
        assert!(waiters.join(id).is_some());
        assert!(waiters.records.lock().unwrap().is_empty());
    }
}
