//! The packed record, as `get` reads it. `scripts/record.lua` says the same.

use std::time::Duration;

use bytes::Bytes;

use crate::store::{CorruptRecord, Record, State};

const VERSION: u8 = 1;

/// What a script found unreadable.
pub(super) fn unreadable(why: &[u8]) -> CorruptRecord {
    match why {
        b"version" => CorruptRecord::new("its format version is not known; a newer release may have written it"),
        _ => CorruptRecord::new("its bytes are damaged"),
    }
}

/// Reads a stored record at `now` milliseconds; `None` once it is expired.
pub(super) fn read(stored: &Bytes, now: u64) -> Result<Option<Record>, CorruptRecord> {
    let damaged = || unreadable(b"damaged");
    match stored.first() {
        Some(&VERSION) => {}
        Some(_) => return Err(unreadable(b"version")),
        None => return Err(damaged()),
    }
    let header = Header::read(stored).ok_or_else(damaged)?;
    let completed = header.state == State::Completed;
    let start = Header::LENGTH + usize::from(header.prints);
    if header.prints == 0
        || (header.outcome > 0 && !completed)
        || Some(stored.len()) != start.checked_add(header.outcome as usize)
    {
        return Err(damaged());
    }
    if header.expires <= now {
        return Ok(None);
    }
    let lease_left = if header.state == State::InProgress { header.lease.saturating_sub(now) } else { 0 };
    Ok(Some(Record {
        state: header.state,
        epoch: header.epoch,
        attempt: header.attempt,
        lease_left: Duration::from_millis(lease_left),
        expires_in: Duration::from_millis(header.expires - now),
        outcome: completed.then(|| stored.slice(start..)),
    }))
}

/// The fixed part, less what only the scripts need.
struct Header {
    state: State,
    epoch: u64,
    attempt: u32,
    lease: u64,
    expires: u64,
    prints: u16,
    outcome: u32,
}

impl Header {
    const LENGTH: usize = 54;

    fn read(stored: &[u8]) -> Option<Self> {
        let [_version, state, b'0' | b'1', b'0' | b'1', rest @ ..] = stored else { return None };
        let state = match state {
            b'P' => State::InProgress,
            b'C' => State::Completed,
            b'U' => State::Unknown,
            _ => return None,
        };
        let (_token, rest) = rest.split_first_chunk::<16>()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        let (attempt, rest) = rest.split_first_chunk()?;
        let (lease, rest) = rest.split_first_chunk()?;
        let (expires, rest) = rest.split_first_chunk()?;
        let (prints, rest) = rest.split_first_chunk()?;
        let (outcome, _) = rest.split_first_chunk()?;
        Some(Self {
            state,
            epoch: u64::from_be_bytes(*epoch),
            attempt: u32::from_be_bytes(*attempt),
            lease: u64::from_be_bytes(*lease),
            expires: u64::from_be_bytes(*expires),
            prints: u16::from_be_bytes(*prints),
            outcome: u32::from_be_bytes(*outcome),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as the scripts pack it.
    fn packed(state: u8, outcome: &[u8]) -> Vec<u8> {
        let mut record = vec![VERSION, state, b'0', b'1'];
        record.extend([7; 16]);
        record.extend(u64::MAX.to_be_bytes());
        record.extend(3_u32.to_be_bytes());
        record.extend(1_500_u64.to_be_bytes());
        record.extend(2_000_u64.to_be_bytes());
        record.extend(2_u16.to_be_bytes());
        record.extend(u32::try_from(outcome.len()).unwrap().to_be_bytes());
        record.extend(b"fp");
        record.extend(outcome);
        record
    }

    fn read_at(record: &[u8], now: u64) -> Result<Option<Record>, CorruptRecord> {
        read(&Bytes::copy_from_slice(record), now)
    }

    #[test]
    fn reads_what_the_scripts_pack() {
        let record = read_at(&packed(b'C', b"paid"), 1_000).unwrap().unwrap();
        assert_eq!((record.state, record.epoch, record.attempt), (State::Completed, u64::MAX, 3));
        assert_eq!((record.lease_left, record.expires_in), (Duration::ZERO, Duration::from_secs(1)));
        assert_eq!(record.outcome.as_deref(), Some(&b"paid"[..]));

        let record = read_at(&packed(b'P', b""), 1_000).unwrap().unwrap();
        assert_eq!((record.state, record.lease_left), (State::InProgress, Duration::from_millis(500)));
        assert_eq!(record.outcome, None);
    }

    #[test]
    fn lives_until_the_millisecond_of_its_expiry() {
        assert!(read_at(&packed(b'P', b""), 1_999).unwrap().is_some());
        assert!(read_at(&packed(b'P', b""), 2_000).unwrap().is_none());
    }

    #[test]
    fn damage_is_never_taken_for_absence() {
        let whole = packed(b'C', b"paid");
        for cut in 0..whole.len() {
            assert!(read_at(&whole[..cut], 1_000).is_err(), "cut at {cut}");
        }
        for (at, byte) in [(0, 2), (1, b'X'), (2, b'2'), (3, 0), (48, 9), (49, 0), (53, 9)] {
            let mut damaged = whole.clone();
            damaged[at] = byte;
            assert!(read_at(&damaged, 1_000).is_err(), "byte {at}");
        }
        assert!(read_at(&packed(b'P', b"paid"), 1_000).is_err(), "an outcome before completion");
    }
}
