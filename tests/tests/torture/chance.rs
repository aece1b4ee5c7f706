//! Dice that fall the same way for the same seed.

use std::time::{Duration, SystemTime};

/// `SplitMix64`.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// One sequence of many under a seed.
    pub(crate) fn new(seed: u64, sequence: u64) -> Self {
        let mut chance = Self(seed ^ sequence.wrapping_mul(0xD134_2543_DE82_EF95));
        chance.next();
        chance
    }

    /// A seed that nobody chose.
    pub(crate) fn fresh_seed() -> u64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos()) ^ now.as_secs()
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number from `from` up to but not including `to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from)
    }

    /// One of `count` places.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(count).unwrap()).unwrap()
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// A time in milliseconds.
    pub(crate) fn time(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.between(from, to))
    }
}
