//! Where canonical bytes go.

use sha2::{Digest as _, Sha256};

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

#[cfg(test)]
impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// SHA-256 that collects small pieces: a call of the hasher costs more than the copy.
pub(super) struct Digest {
    hasher: Sha256,
    pending: [u8; Self::CHUNK],
    filled: usize,
}

impl Digest {
    const CHUNK: usize = 512;

    pub(super) fn new() -> Self {
        Self { hasher: Sha256::new(), pending: [0; Self::CHUNK], filled: 0 }
    }

    fn flush(&mut self) {
        self.hasher.update(self.pending.get(..self.filled).unwrap_or_default());
        self.filled = 0;
    }

    pub(super) fn finish(mut self) -> [u8; 32] {
        self.flush();
        self.hasher.finalize().into()
    }
}

impl Sink for Digest {
    fn put(&mut self, bytes: &[u8]) {
        if self.filled + bytes.len() > Self::CHUNK {
            self.flush();
        }
        match self.pending.get_mut(self.filled..self.filled + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.filled += bytes.len();
            }
            None => self.hasher.update(bytes),
        }
    }
}
