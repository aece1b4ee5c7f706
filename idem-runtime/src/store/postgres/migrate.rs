//! Creates the table and the functions.

use sqlx::{AssertSqlSafe, raw_sql};

use super::{PostgresStore, call::Trouble, statements::SCHEMA};
use crate::store::StoreError;

/// Serializes processes that start together: `CREATE … IF NOT EXISTS` alone fails when two of them run it at once.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7594582163474580077);\n";

impl PostgresStore {
    /// The SQL that [`migrate`](Self::migrate) runs, for an application that manages its schema itself:
    ///
    /// ```sql
    #[doc = include_str!("schema.sql")]
    /// ```
    pub const SCHEMA: &str = SCHEMA;

    /// Creates the table, its index and its functions where they are missing. Any number of processes may do so at once;
    /// where everything is there it only looks, so that a role without the right to create will do.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        Ok(self.create_missing().await?)
    }

    async fn create_missing(&self) -> Result<(), Trouble> {
        let mut connection = self.caller.pool.acquire().await?;
        let present = self.table.apply(
            "SELECT to_regclass('idem_record') IS NOT NULL AND to_regclass('idem_record_purge_at') IS NOT NULL \
             AND to_regproc('idem_record_claim_v1') IS NOT NULL AND to_regproc('idem_record_once_v1') IS NOT NULL \
             AND to_regproc('idem_record_purge_v1') IS NOT NULL AND to_regproc('idem_record_get_v1') IS NOT NULL",
        );
        let row = raw_sql(AssertSqlSafe(present)).fetch_one(&mut *connection).await?;
        if sqlx::Row::try_get(&row, 0)? {
            return Ok(());
        }
        // Several statements in one simple query are one transaction, which holds the lock to its end.
        let create = LOCK.to_owned() + &self.table.apply(SCHEMA);
        raw_sql(AssertSqlSafe(create)).execute(&mut *connection).await?;
        Ok(())
    }
}
