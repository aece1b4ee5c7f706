//! What SQLite says, sorted for the contract.

use std::sync::Arc;

use rusqlite::{Error, ErrorCode};

use crate::store::{CorruptRecord, StoreError};

/// Why a verb has no answer.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// A statement failed, and with it the transaction.
    Sql(Arc<Error>),
    /// The row can't be read; other rows can.
    Row(CorruptRecord),
    /// It waited for its turn longer than its caller will.
    Overdue,
    /// The thread that would answer is gone.
    Stopped,
}

impl Trouble {
    /// Another connection writes: worth another try.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Sql(Arc::new(error))
    }
}

impl From<CorruptRecord> for Trouble {
    fn from(record: CorruptRecord) -> Self {
        Self::Row(record)
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Row(record) => record.into(),
            Trouble::Sql(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                    CorruptRecord::new("the database file is damaged").into()
                }
                _ => Self::fault(error),
            },
            Trouble::Overdue => Self::fault("the database was busy for too long"),
            Trouble::Stopped => Self::fault("the database's thread has ended"),
        }
    }
}
