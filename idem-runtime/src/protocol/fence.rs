//! How an owner knows that it still is one, by its own clocks alone.

use std::time::Duration;

/// What the process's two clocks show at one moment, each since an origin of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The monotonic clock. It may stand still while the machine sleeps.
    pub monotonic: Duration,
    /// The wall clock. It may be set.
    pub wall: Duration,
}

impl Reading {
    /// The time since `earlier`, by whichever clock says more: too much is safe, too little is two owners.
    pub fn since(self, earlier: Self) -> Duration {
        self.monotonic.saturating_sub(earlier.monotonic).max(self.wall.saturating_sub(earlier.wall))
    }
}

/// Where an owner stands with its lease.
///
/// The lease counts from *before* its newest successful claim or renewal was sent, so the store grants it no earlier than
/// the owner reckons. At five sixths the owner gives up: the last sixth is for clocks that differ and for stopping.
#[derive(Clone, Copy, Debug)]
pub struct Fence {
    lease: Duration,
    began: Reading,
    proven: Reading,
    longest: Duration,
}

impl Fence {
    /// A lease claimed by a call sent at `sent`, to be renewed for `longest` at most.
    pub fn new(lease: Duration, sent: Reading, longest: Duration) -> Self {
        Self { lease, began: sent, proven: sent, longest }
    }

    /// A renewal that was sent at `sent` has succeeded.
    pub fn prove(&mut self, sent: Reading) {
        self.proven = sent;
    }

    /// Whether the owner can no longer prove its lease, and must stop.
    pub fn is_lost(&self, now: Reading) -> bool {
        self.left(now).is_zero()
    }

    /// How long the owner may go on without another proof.
    pub fn left(&self, now: Reading) -> Duration {
        (self.lease * 5 / 6).saturating_sub(now.since(self.proven))
    }

    /// In how long the next renewal is due: a third of the lease after the last proof. `None` when the run has had its
    /// longest time and is renewed no more.
    pub fn renewal_due(&self, now: Reading) -> Option<Duration> {
        (now.since(self.began) < self.longest).then(|| (self.lease / 3).saturating_sub(now.since(self.proven)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic: u64, wall: u64) -> Reading {
        Reading { monotonic: Duration::from_secs(monotonic), wall: Duration::from_secs(wall) }
    }

    const LEASE: Duration = Duration::from_secs(30);

    #[test]
    fn is_lost_at_five_sixths_of_the_lease() {
        let fence = Fence::new(LEASE, at(0, 0), LEASE * 10);
        assert!(!fence.is_lost(at(24, 24)));
        assert!(fence.is_lost(at(25, 25)));
    }

    #[test]
    fn the_larger_clock_counts() {
        let fence = Fence::new(LEASE, at(0, 1000), LEASE * 10);
        assert!(fence.is_lost(at(1, 1025)), "the machine slept");
        assert!(fence.is_lost(at(25, 900)), "the wall clock was set back");
    }

    #[test]
    fn a_proof_counts_from_when_it_was_sent() {
        let mut fence = Fence::new(LEASE, at(0, 0), LEASE * 10);
        fence.prove(at(10, 10));
        assert_eq!(fence.left(at(20, 20)), Duration::from_secs(15));
        assert_eq!(fence.renewal_due(at(12, 12)), Some(Duration::from_secs(8)));
    }

    #[test]
    fn is_renewed_for_its_longest_time_only() {
        let fence = Fence::new(LEASE, at(0, 0), Duration::from_mins(1));
        assert!(fence.renewal_due(at(59, 59)).is_some());
        assert!(fence.renewal_due(at(60, 60)).is_none());
    }
}
