//! The process's clocks and its source of tokens.

use std::{
    cell::RefCell,
    sync::OnceLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use crate::{
    protocol::{Reading, Token},
    store::StoreError,
};

pub(crate) fn now() -> Reading {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    Reading {
        monotonic: ORIGIN.get_or_init(Instant::now).elapsed(),
        wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
    }
}

/// How many tokens one call to the operating system brings.
const BATCH: usize = 64;

struct Tokens {
    bytes: [u8; BATCH * 16],
    used: usize,
}

thread_local! {
    static TOKENS: RefCell<Tokens> = const { RefCell::new(Tokens { bytes: [0; BATCH * 16], used: BATCH }) };
}

/// A new token from the operating system's random source.
pub(crate) fn token() -> Result<Token, StoreError> {
    TOKENS.with_borrow_mut(|tokens| {
        if tokens.used >= BATCH {
            getrandom::fill(&mut tokens.bytes).map_err(StoreError::fault)?;
            tokens.used = 0;
        }
        let (chunks, _) = tokens.bytes.as_chunks_mut::<16>();
        let chunk = chunks.get_mut(tokens.used).ok_or_else(|| StoreError::fault("no random bytes"))?;
        tokens.used += 1;
        // Each is handed out once and then gone from here.
        Ok(Token::from_bytes(std::mem::take(chunk)))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn tokens_differ_across_batches() {
        let tokens: HashSet<_> = (0..1000).map(|_| super::token().unwrap()).collect();
        assert_eq!(tokens.len(), 1000);
    }
}
