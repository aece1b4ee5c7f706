//! Two clocks: records expire by the wall, leases lapse by the boot's clock, which no administrator sets.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::protocol::Micros;

/// Which boot this is, where the system tells.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    boot: Option<[u8; 16]>,
}

/// Both clocks at one moment.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// The wall clock, by which the rules decide.
    pub(super) now: Micros,
    lease: u64,
    boot: Option<[u8; 16]>,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { boot: since_boot().and(boot_id()) }
    }

    pub(super) fn now(self) -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Micros(u64::try_from(wall.as_micros()).unwrap_or(u64::MAX));
        let lease = self.boot.and_then(|_| since_boot()).unwrap_or(now.millis());
        Moment { now, lease, boot: self.boot }
    }
}

impl Moment {
    /// What names the lease's clock in a row; empty for the wall clock.
    pub(super) fn boot(&self) -> &[u8] {
        self.boot.as_ref().map_or(&[], |boot| boot)
    }

    /// A lease's end on the wall clock, as its clock is read now, from what a row says. Another boot's lease has lapsed.
    pub(super) fn lease_from_row(&self, boot: &[u8], lease_until: u64) -> u64 {
        if boot == self.boot() { shift(lease_until, self.lease, self.now.millis()) } else { 0 }
    }

    /// What a row says of a lease that ends at this moment of the wall clock.
    pub(super) fn lease_to_row(self, lease_until: u64) -> u64 {
        shift(lease_until, self.now.millis(), self.lease)
    }
}

/// The moment as far from `there` as `moment` is from `here`.
fn shift(moment: u64, here: u64, there: u64) -> u64 {
    if moment >= here { there.saturating_add(moment - here) } else { there.saturating_sub(here - moment) }
}

#[cfg(target_os = "linux")]
fn boot_id() -> Option<[u8; 16]> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&id.trim().replace('-', ""), 16).ok().map(u128::to_be_bytes)
}

/// Milliseconds since the boot, suspended time included.
#[cfg(target_os = "linux")]
fn since_boot() -> Option<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    Some(seconds * 1000 + nanos / 1_000_000)
}

#[cfg(not(target_os = "linux"))]
fn boot_id() -> Option<[u8; 16]> {
    None
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall_ms: u64, lease: u64, boot: u8) -> Moment {
        Moment { now: Micros(wall_ms * 1000), lease, boot: Some([boot; 16]) }
    }

    #[test]
    fn a_lease_follows_its_boots_clock_whatever_the_wall_says() {
        let claimed = at(1_000_000, 5_000, 1);
        let row = claimed.lease_to_row(1_000_000 + 300);
        assert_eq!(row, 5_300);
        // 100 ms later, the wall set back by an hour and ahead by one.
        for wall in [1_000_000 - 3_600_000 / 4, 1_000_000 + 3_600_000] {
            assert_eq!(at(wall, 5_100, 1).lease_from_row(&[1; 16], row), wall + 200);
        }
        assert!(at(1_000_000, 5_301, 1).lease_from_row(&[1; 16], row) < 1_000_000, "lapsed");
    }

    #[test]
    fn another_boots_lease_has_lapsed() {
        let row = at(1_000_000, 5_000, 1).lease_to_row(1_000_000 + 300);
        assert_eq!(at(1_000_000, 10, 2).lease_from_row(&[1; 16], row), 0);
        assert_eq!(at(1_000_000, 10, 2).lease_from_row(&[], row), 0);
    }

    #[test]
    fn this_system_names_its_boot() {
        let clock = Clock::new();
        assert_eq!(clock.boot.is_some(), cfg!(target_os = "linux"));
        let (earlier, later) = (clock.now(), clock.now());
        assert!(earlier.now <= later.now && earlier.lease <= later.lease);
    }
}
