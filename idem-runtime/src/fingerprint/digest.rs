//! Where canonical bytes go.

use sha2::{Digest, Sha256};

/// Takes canonical bytes, in pieces of any size.
pub(super) trait Sink {
    fn put(&mut self, bytes: &[u8]);

    fn length(&mut self, length: usize) {
        self.put(&(length as u64).to_le_bytes());
    }

    /// The length, then the bytes: no two lists of framed values read the same.
    fn framed(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.put(bytes);
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for Sha256 {
    fn put(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}
