//! Wakes duplicates that wait for an attempt.

/// Who waits for which record in this process.
#[derive(Debug, Default)]
pub(crate) struct Waiters;

impl Waiters {
    pub(crate) fn wake(&self, _id: &crate::protocol::RecordId) {}
    pub(crate) fn wake_all(&self) {}
}
