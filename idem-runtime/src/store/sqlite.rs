//! Records in Sqlite.

/// Keeps records in Sqlite.
#[derive(Debug)]
pub struct SqliteStore;
