//! The statements of each verb, for one table and one protocol.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::TableName;
use crate::protocol::RecordId;

/// The table and functions as shipped, for the default table.
pub(super) const SCHEMA: &str = include_str!("schema.sql");

/// Where settlements are announced to those who wait; the payload is the record id in hex.
pub(super) const CHANNEL: &str = "idem_settled";

const TABLE: &str = "idem_record";

/// Before a simple query, which is one transaction with it: its values come back as text in a form of the session's, and
/// scans under a stricter default isolation make the statements that write beside them fail.
const PLAIN: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL bytea_output = 'hex'; ";

/// One verb's statement.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// Its own number, which every call hands in: a statement that gets another's number does nothing and answers nothing.
    pub(super) number: i64,
    pub(super) sql: Arc<str>,
    /// Whether its values go into its text.
    pub(super) simple: bool,
}

/// Every verb's statement.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) claim: Statement,
    pub(super) renew: Statement,
    pub(super) complete: Statement,
    pub(super) release: Statement,
    pub(super) hold: Statement,
    pub(super) get: Statement,
    pub(super) forget: Statement,
    pub(super) purge: Statement,
    pub(super) tx_claim: Statement,
    pub(super) tx_complete: Statement,
    pub(super) once: Statement,
}

impl Statement {
    /// `$1` is the call and `$2` the record id: both come back, because a pooler of transactions may hand us the reply to
    /// another client's statement. `$3` is the number, because it may also run another client's statement with our values.
    /// The last column of the head says whether this may be running inside somebody's open transaction: a simple query
    /// and its transaction start at one moment; a prepared one starts at the Bind, microseconds before.
    fn new(columns: &str, from: &str, simple: bool) -> Self {
        let slack = if simple { 0 } else { 50 };
        let sql = format!(
            "SELECT $1::bigint, $2::bytea, statement_timestamp() - transaction_timestamp() > \
             interval '{slack} microseconds', {columns} FROM {from} WHERE $3::bigint = "
        );
        let number = RecordId::from_bytes(Sha256::digest(&sql).into()).prefix().cast_signed();
        let sql = format!("{}{sql}({number})", if simple { PLAIN } else { "" });
        Self { number, sql: sql.into(), simple }
    }
}

impl Statements {
    pub(super) fn new(table: &TableName, simple: bool) -> Self {
        let statement = |columns, from| Statement::new(columns, &table.apply(from), simple);
        Self {
            // Called in a subquery's columns, as those below that are called with every request: in FROM a function's row
            // goes through a table.
            claim: statement(
                "(f.r).outcome, (f.r).owner_epoch, (f.r).owner_attempt, (f.r).lease_left, (f.r).bytes",
                "(SELECT idem_record_claim_v1($2, $4::bytea, $5::bytea[], $6::boolean, $7::bigint, $8::bigint, \
                 $9::boolean) r) f",
            ),
            renew: statement("f.ack", "idem_record_renew_v1($2, $4::bytea, $5::bigint) f"),
            complete: statement(
                "f.ack",
                "(SELECT idem_record_complete_v1($2, $4::bytea, $5::bigint, $6::bigint, $7::bytea, $8::bigint, $9::bytea) \
                 ack) f",
            ),
            release: statement("f.ack", "idem_record_release_v1($2, $4::bytea) f"),
            hold: statement("f.ack", "idem_record_hold_v1($2, $4::bytea, $5::bigint) f"),
            get: statement(
                "f.state, f.epoch, f.attempt, f.lease_left, f.expires_in, f.response",
                "idem_record_get_v1($2) f",
            ),
            forget: statement("f.was_live", "idem_record_forget_v1($2) f"),
            // Simple in any case: what it scans must not make the statements beside it fail.
            purge: Statement::new(
                "f.removed, f.more",
                &table.apply("idem_record_purge_v1($4::bigint, $5::bigint) f"),
                true,
            ),
            // Never simple: inside a transaction a pooler keeps the server's connection, and PLAIN would change the
            // isolation that the transaction has.
            tx_claim: Statement::new(
                "(f.r).outcome, (f.r).owner_epoch, (f.r).owner_attempt, (f.r).lease_left, (f.r).bytes, (f.r).xact, \
                 (f.r).place",
                &table.apply(
                    "(SELECT idem_record_tx_claim_v1($2, $4::bytea, $5::bytea[], $6::bigint, $7::bigint) r) f",
                ),
                false,
            ),
            tx_complete: Statement::new(
                "f.ack",
                &table.apply(
                    "(SELECT idem_record_tx_complete_v1($2, $4::bytea, $5::bigint, $6::text, $7::bigint, $8::bytea) ack) f",
                ),
                false,
            ),
            once: Statement::new(
                "f.outcome",
                &table.apply("idem_record_once_v1($2, $4::bytea, $5::bytea, $6::bigint) f"),
                false,
            ),
        }
    }
}

impl TableName {
    /// `sql`, written for the default table, for this one.
    pub(super) fn apply(&self, sql: &str) -> String {
        // An index is named without its schema; it takes the table's.
        sql.replace("idem_record_purge_at", "\u{1}")
            .replace(TABLE, &self.qualified())
            .replace('\u{1}', &format!("{}_purge_at", self.table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_table_leaves_no_trace_of_the_default_one() {
        let table = TableName::parse("pay.idem_record2").unwrap();
        let sql = table.apply(SCHEMA);
        assert!(sql.contains("CREATE TABLE IF NOT EXISTS pay.idem_record2 ("));
        assert!(sql.contains("CREATE INDEX IF NOT EXISTS idem_record2_purge_at ON pay.idem_record2 (purge_at)"));
        assert!(sql.contains("FUNCTION pay.idem_record2_claim_v1("));
        assert_eq!(TableName::default().apply(SCHEMA), SCHEMA);
    }

    #[test]
    fn no_two_statements_share_a_number() {
        let mut numbers = Vec::new();
        for table in ["a", "b"] {
            for simple in [false, true] {
                let s = Statements::new(&TableName::parse(table).unwrap(), simple);
                numbers.extend([s.claim, s.renew, s.complete, s.release, s.hold, s.get, s.forget].map(|s| s.number));
                // These are the same statements either way.
                numbers
                    .extend([s.purge, s.tx_claim, s.tx_complete, s.once].map(|s| s.number).iter().filter(|_| simple));
            }
        }
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }

    #[test]
    fn table_names_cannot_carry_sql() {
        for name in ["", ".", "a.", ".a", "a.b.c", "1a", "a b", "a;b", "a\"b", "A", "é", "a-b", &"a".repeat(41)] {
            assert!(TableName::parse(name).is_none(), "{name:?} was taken");
        }
        for name in ["a", "_a1", "s.t", &"a".repeat(40)] {
            assert!(TableName::parse(name).is_some(), "{name:?} was refused");
        }
    }
}
