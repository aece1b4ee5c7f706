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
        let mut hash = Sha256::new();
        for part in [Some(namespace.as_bytes()), Some(operation.as_bytes()), scope, Some(key)] {
            // No part can be u64::MAX bytes long, so this length means "absent" and nothing else.
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            hash.update(length.to_be_bytes());
            hash.update(part.unwrap_or_default());
        }
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

    #[test]
    fn debug_and_display_show_eight_digits_at_most() {
        let id = RecordId::from_bytes([0xab; 32]);
        assert_eq!(id.to_string(), "abababab");
        assert_eq!(format!("{id:?}"), "RecordId(abababab…)");
        assert_eq!(format!("{:?}", Token::from_bytes([7; 16])), "Token(…)");
    }
}
