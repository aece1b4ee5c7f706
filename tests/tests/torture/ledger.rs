//! What was really charged, whatever store and answers say.

use std::{fs, path::PathBuf};

/// One charge.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) amount: u64,
    pub(crate) process: u32,
    /// When, in milliseconds.
    pub(crate) at: u64,
}

#[derive(Debug)]
pub(crate) enum Ledger {
    /// The file that the example's bank appends to.
    File(PathBuf),
    /// The database whose payments commit with their records; it doesn't say who paid when.
    #[cfg(feature = "postgres")]
    Table(String),
}

impl Ledger {
    /// All charges, in order.
    pub(crate) async fn effects(&self) -> Vec<Effect> {
        match self {
            Self::File(path) => lines(&fs::read_to_string(path).unwrap()),
            #[cfg(feature = "postgres")]
            Self::Table(url) => rows(url).await,
        }
    }
}

/// A payment's id says where its line ends.
fn lines(text: &str) -> Vec<Effect> {
    let mut end = 0;
    let lines = text.lines().map(|line| {
        end += line.len() + 1;
        let words: Vec<&str> = line.split(' ').collect();
        Effect {
            id: format!("ch_{end}"),
            user: words[0].into(),
            amount: words[1].parse().unwrap(),
            process: words[2].parse().unwrap(),
            at: words[3].parse().unwrap(),
        }
    });
    lines.collect()
}

#[cfg(feature = "postgres")]
async fn rows(url: &str) -> Vec<Effect> {
    let payments = "SELECT p.id, customer, amount, count(o.id) FROM payments p LEFT JOIN outbox o ON receipt_for = p.id \
                    GROUP BY p.id ORDER BY p.id";
    let rows: Vec<(i64, String, i64, i64)> =
        sqlx::query_as(payments).fetch_all(&idem_tests::postgres::pool(url, 1).await).await.unwrap();
    let effects = rows.into_iter().map(|(id, user, amount, receipts)| {
        assert_eq!(receipts, 1, "half a payment: {id} of {user}");
        Effect { id: id.to_string(), user, amount: amount.try_into().unwrap(), process: 0, at: 0 }
    });
    effects.collect()
}
