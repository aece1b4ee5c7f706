//! What was really charged, whatever store and answers say.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// One charge.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    /// The payment's id, by where its line ends.
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) amount: u64,
    pub(crate) process: u32,
    /// When, in milliseconds.
    pub(crate) at: u64,
}

/// The file that the example's bank appends to.
#[derive(Debug)]
pub(crate) struct Ledger(PathBuf);

impl Ledger {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// All charges, in order.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        let text = fs::read_to_string(&self.0).unwrap();
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
}
