//! The statements of each verb, for one table and one protocol.

use std::sync::Arc;

use super::TableName;

/// The table and functions as shipped, for the default table.
pub(super) const SCHEMA: &str = include_str!("schema.sql");

/// Where settlements are announced to those who wait; the payload is the record id in hex.
pub(super) const CHANNEL: &str = "idem_settled";

const TABLE: &str = "idem_record";

/// One verb's statement and the name its replies carry.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) verb: &'static str,
    pub(super) sql: Arc<str>,
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
}

impl Statements {
    pub(super) fn new(table: &TableName, simple: bool) -> Self {
        // `$1` is the call and `$2` the record id in every statement, and both come back with the verb: a pooler of
        // transactions may hand us the reply to another client's statement, or run another statement than ours.
        // The last column of the head says whether this may be running inside somebody's open transaction. A simple query
        // and its transaction start at one moment; a prepared one starts at the Bind, microseconds before.
        let slack = if simple { 0 } else { 50 };
        let statement = |verb: &'static str, rest: &str| Statement {
            verb,
            sql: format!(
                "SELECT '{verb}' AS verb, $1::bigint AS call, $2::bytea AS id, statement_timestamp() - \
                 transaction_timestamp() > interval '{slack} microseconds' AS nested, {}",
                table.apply(rest)
            )
            .into(),
        };
        Self {
            claim: statement(
                "claim",
                "f.outcome, f.owner_epoch, f.owner_attempt, f.lease_left, f.bytes \
                 FROM idem_record_claim_v1($2, $3::bytea, $4::bytea[], $5::boolean, $6::bigint, $7::bigint, $8::boolean) f",
            ),
            renew: statement("renew", "f.ack FROM idem_record_renew_v1($2, $3::bytea, $4::bigint) f"),
            complete: statement(
                "complete",
                "f.ack FROM idem_record_complete_v1\
                 ($2, $3::bytea, $4::bigint, $5::bigint, $6::bytea, $7::bigint, $8::bytea) f",
            ),
            release: statement("release", "f.ack FROM idem_record_release_v1($2, $3::bytea) f"),
            hold: statement("hold", "f.ack FROM idem_record_hold_v1($2, $3::bytea, $4::bigint) f"),
            get: statement(
                "get",
                "r.state::bigint, r.epoch, r.attempt, r.lease_until - c.now, r.expires - c.now, r.response \
                 FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) c \
                 LEFT JOIN idem_record r ON r.id = $2 AND r.expires > c.now",
            ),
            forget: statement("forget", "f.was_live FROM idem_record_forget_v1($2) f"),
            purge: statement("purge", "f.removed, f.more FROM idem_record_purge_v1($3::bigint, $4::bigint) f"),
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
    fn table_names_cannot_carry_sql() {
        for name in ["", ".", "a.", ".a", "a.b.c", "1a", "a b", "a;b", "a\"b", "A", "é", "a-b", &"a".repeat(41)] {
            assert!(TableName::parse(name).is_none(), "{name:?} was taken");
        }
        for name in ["a", "_a1", "s.t", &"a".repeat(40)] {
            assert!(TableName::parse(name).is_some(), "{name:?} was refused");
        }
    }
}
