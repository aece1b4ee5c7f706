//! What can go wrong in a store, sorted by what to do about it.

use std::{error::Error, fmt};

/// Why a store did not do as asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// It can't be reached, is too slow, full or misconfigured. The effect of the call is unknown; trying again may help.
    Fault(Box<dyn Error + Send + Sync>),
    /// It holds something under this id that can't be read. Trying again won't help; the handler must not run.
    Corrupt(CorruptRecord),
}

impl StoreError {
    /// A fault with its cause.
    pub fn fault(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Fault(cause.into())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(_) => f.write_str("the idempotency store failed"),
            Self::Corrupt(_) => f.write_str("the idempotency store holds a record that can't be read"),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Fault(cause) => Some(cause.as_ref()),
            Self::Corrupt(cause) => Some(cause),
        }
    }
}

impl From<CorruptRecord> for StoreError {
    fn from(cause: CorruptRecord) -> Self {
        Self::Corrupt(cause)
    }
}

/// A stored record that can't be read: damaged, or written by a newer version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptRecord {
    what: &'static str,
}

impl CorruptRecord {
    /// Says which part can't be read.
    pub const fn new(what: &'static str) -> Self {
        Self { what }
    }
}

impl fmt::Display for CorruptRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unreadable record: {}", self.what)
    }
}

impl Error for CorruptRecord {}
