//! Records in Postgres.

/// Keeps records in Postgres.
#[derive(Debug)]
pub struct PostgresStore;
