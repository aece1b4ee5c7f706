//! Which record of a shard expires next.

use std::collections::{BTreeSet, VecDeque};

/// Expiry in milliseconds, then the id's hash: a third of the size of an id, and as good as one for finding the record.
pub(super) type IndexKey = (u64, u64);

/// Keys by expiry. Records of one `ttl` come in the order in which they go, so most are a queue's, which is smaller and
/// faster than a tree.
#[derive(Default)]
pub(super) struct Expiries {
    in_order: VecDeque<IndexKey>,
    others: BTreeSet<IndexKey>,
}

impl Expiries {
    pub(super) fn insert(&mut self, key: IndexKey) {
        if self.in_order.back().is_none_or(|last| last.0 <= key.0) {
            self.in_order.push_back(key);
        } else {
            self.others.insert(key);
        }
    }

    pub(super) fn remove(&mut self, key: &IndexKey) {
        if self.others.remove(key) {
            return;
        }
        let from = self.in_order.partition_point(|other| other.0 < key.0);
        let mut same = self.in_order.range(from..).take_while(|other| other.0 == key.0);
        if let Some(at) = same.position(|other| other == key) {
            self.in_order.remove(from + at);
        }
    }

    pub(super) fn first(&self) -> Option<IndexKey> {
        self.in_order.front().into_iter().chain(self.others.first()).min().copied()
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.in_order.capacity()
    }

    /// Gives back the room of keys that are gone.
    pub(super) fn shrink(&mut self) {
        if self.in_order.len() < self.in_order.capacity() / 4 {
            self.in_order.shrink_to(self.in_order.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_expires_first_is_first(changes in prop::collection::vec((any::<bool>(), 0..12_u64, 0..3_u64), 0..60)) {
            let (mut expiries, mut all) = (Expiries::default(), BTreeSet::new());
            for (put, expires, hash) in changes {
                let key = (expires, hash);
                if put && all.insert(key) {
                    expiries.insert(key);
                } else if !put {
                    all.remove(&key);
                    expiries.remove(&key);
                }
                expiries.shrink();
                let first = expiries.first();
                prop_assert_eq!(first.map(|first| first.0), all.first().map(|first| first.0));
                prop_assert!(first.is_none_or(|first| all.contains(&first)));
            }
        }
    }
}
