//! Records that commit with the handler's own writes: what a store with transactions offers beside [`Store`](super::Store).

use std::{any::Any, error::Error, fmt, future::Future, pin::Pin, time::Duration};

use super::{Claim, Claimed, Completion, StoreError};

/// What the methods of [`Transactional`] and [`OpenTransaction`] return.
pub type Promise<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A store that can write its records in the handler's own transaction; see
/// [`Store::transactional`](super::Store::transactional). Handlers ask for it by a parameter that is made of a
/// [`Loan`](crate::http::Loan).
///
/// A future that was polled once is never dropped half-way, nor is one of [`OpenTransaction`]'s.
pub trait Transactional: Any + Send + Sync {
    /// Opens a transaction, and claims in it where there is a claim to make; without one the transaction has no record.
    ///
    /// An owner keeps everybody else from owning until its transaction has ended, by whatever end, and its lease is not
    /// used. The server ends a transaction that sends nothing for `idle`. Nobody waits here for another attempt's end.
    fn begin<'a>(&'a self, claim: Option<&'a Claim>, idle: Duration) -> Promise<'a, Result<Begun, StoreError>>;
}

/// What [`Transactional::begin`] got.
pub enum Begun {
    /// The transaction is open, and the claimant the owner.
    Open {
        /// As in [`Claimed::Owner`].
        epoch: u64,
        /// As in [`Claimed::Owner`].
        attempt: u32,
        /// Where the handler writes.
        transaction: Box<dyn OpenTransaction>,
    },
    /// The claimant is not the owner; no transaction is open. Never [`Claimed::Owner`].
    Refused(Claimed),
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { epoch, attempt, .. } => {
                f.debug_struct("Open").field("epoch", epoch).field("attempt", attempt).finish_non_exhaustive()
            }
            Self::Refused(claimed) => f.debug_tuple("Refused").field(claimed).finish(),
        }
    }
}

/// A transaction with a claim in it. Dropped, it is rolled back.
pub trait OpenTransaction: Any + Send {
    /// Stores the outcome in the transaction, where there was a claim, and commits.
    fn commit(self: Box<Self>, completion: Option<Completion>) -> Promise<'static, Result<(), NotCommitted>>;

    /// Undoes everything, the claim included. Says whether the transaction had failed before: then what its handler
    /// answers may be a conflict or a broken connection in disguise.
    fn rollback(self: Box<Self>) -> Promise<'static, bool>;
}

/// Why a transaction did not commit.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotCommitted {
    /// It is rolled back: a conflict, a broken connection, a statement that failed before. Running again may help.
    RolledBack(Box<dyn Error + Send + Sync>),
    /// It is rolled back, because what the handler wrote can't be committed; running again won't help.
    Refused(Box<dyn Error + Send + Sync>),
    /// It ended before its handler did, by the handler's own doing.
    Ended,
    /// The commit was sent and its answer is lost: another claim will find out.
    Unknown(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for NotCommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RolledBack(_) => "the transaction was rolled back",
            Self::Refused(_) => "the transaction can't be committed",
            Self::Ended => "the handler ended its transaction itself, or kept it beyond its answer",
            Self::Unknown(_) => "the answer to the commit is lost",
        })
    }
}

impl Error for NotCommitted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::RolledBack(cause) | Self::Refused(cause) | Self::Unknown(cause) => Some(cause.as_ref()),
            Self::Ended => None,
        }
    }
}
