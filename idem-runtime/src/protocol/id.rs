//! Names: which record, whose attempt.

use std::fmt;

use sha2::{Digest, Sha256};

/// Names a record: SHA-256 over the length-framed namespace, operation, scope and key.
///
/// Only this hash reaches a store or a log, so a key can neither inject nor leak anything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId([u8; 32]);

impl RecordId {
    /// Derives the id of `key`, sent by `scope`, for `operation`. No scope and an empty scope differ.
    pub fn derive(namespace: &str, operation: &str, scope: Option<&[u8]>, key: &[u8]) -> Self {
        Self::derive_from(namespace, &[operation], scope, key)
    }

    /// As [`derive`](Self::derive), where the operation's name is in pieces.
    pub(crate) fn derive_from(namespace: &str, operation: &[&str], scope: Option<&[u8]>, key: &[u8]) -> Self {
        let mut hash = Sha256::new();
        // No part can be u64::MAX bytes long, so this length means "absent" and nothing else.
        let length = |part: Option<usize>| part.map_or(u64::MAX, |length| length as u64).to_be_bytes();
        hash.update(length(Some(namespace.len())));
        hash.update(namespace);
        hash.update(length(Some(operation.iter().map(|piece| piece.len()).sum())));
        for piece in operation {
            hash.update(piece);
        }
        hash.update(length(scope.map(<[u8]>::len)));
        hash.update(scope.unwrap_or_default());
        hash.update(length(Some(key.len())));
        hash.update(key);
        Self(hash.finalize().into())
    }

    /// An id as a store kept it.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes a store keeps.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight bytes as a number: a ready-made hash for maps, shards and advisory locks.
    pub const fn prefix(&self) -> u64 {
        match self.0.first_chunk() {
            Some(prefix) => u64::from_be_bytes(*prefix),
            None => 0,
        }
    }
}

impl fmt::Display for RecordId {
    /// The first 8 hex digits: enough to find a record, too few to test a guessed key against.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.prefix() >> 32)
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({self}…)")
    }
}

/// Names one attempt: random, so that nobody can complete or release what they don't own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; 16]);

impl Token {
    /// A token as a store kept it.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes a store keeps.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Token {
    /// Whoever knows a token may settle its attempt, so it stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_run_together() {
        let ids = [
            RecordId::derive("a", "b", None, b"c"),
            RecordId::derive("a", "b", Some(b""), b"c"),
            RecordId::derive("ab", "", None, b"c"),
            RecordId::derive("a", "", Some(b"b"), b"c"),
            RecordId::derive("a", "b", Some(b"c"), b""),
        ];
        for (at, id) in ids.iter().enumerate() {
            assert!(!ids[..at].contains(id), "id {at} is not its own");
        }
    }

    /// Computed from the definition by another implementation; it never changes, or every record is lost.
    #[test]
    fn derivation_is_frozen() {
        let hex = |id: RecordId| id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let derive = |scope| hex(RecordId::derive("payments-prod", "POST /payments", scope, b"k1"));
        assert_eq!(derive(None), "7ed1361a63cf096eeb1b22fcb26f68e71a22c25aee24f31ed8d5cc289c4cee0d");
        assert_eq!(derive(Some(b"ann")), "22d6c1c89da1788975ca194d2170cdd3a7c8d5dc4bcbc4393d425775a90c9678");
    }

    #[test]
    fn debug_and_display_show_eight_digits_at_most() {
        let id = RecordId::from_bytes([0xab; 32]);
        assert_eq!(id.to_string(), "abababab");
        assert_eq!(format!("{id:?}"), "RecordId(abababab…)");
        assert_eq!(format!("{:?}", Token::from_bytes([7; 16])), "Token(…)");
    }
}
