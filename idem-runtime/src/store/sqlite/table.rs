//! The table: rows read into slots, slots written into rows.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, Statement, types::FromSqlError};

use super::{
    clock::{Clock, Moment},
    trouble::Trouble,
};
use crate::{
    protocol::{Fingerprint, Micros, RecordId, Slot, State, Token},
    store::CorruptRecord,
};

/// One connection's statements, and the time at which they are used.
pub(super) struct Table<'c> {
    head: Statement<'c>,
    outcome: Statement<'c>,
    put: Statement<'c>,
    delete: Statement<'c>,
    expired: Statement<'c>,
    delete_row: Statement<'c>,
    clock: Clock,
    moment: Moment,
}

/// An expired row and the size of its outcome.
pub(super) struct Expired {
    row: i64,
    pub(super) bytes: u64,
}

impl<'c> Table<'c> {
    pub(super) fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        let clock = Clock::new();
        Ok(Self {
            head: connection.prepare(
                "SELECT state, token, epoch, attempt, hold, fingerprint, boot, lease_until, expires_at
                 FROM idem_record WHERE id = ?1",
            )?,
            // Apart from the head: SQLite reads a selected value whole, and most answers need none.
            outcome: connection
                .prepare("SELECT outcome FROM idem_record WHERE id = ?1 AND state = 2 AND token = ?2")?,
            put: connection.prepare(
                "INSERT INTO idem_record
                 (id, state, token, epoch, attempt, hold, fingerprint, boot, lease_until, expires_at, outcome)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                 ON CONFLICT (id) DO UPDATE SET state = ?2, token = ?3, epoch = ?4, attempt = ?5, hold = ?6,
                 fingerprint = ?7, boot = ?8, lease_until = ?9, expires_at = ?10, outcome = ?11",
            )?,
            delete: connection.prepare("DELETE FROM idem_record WHERE id = ?1")?,
            expired: connection.prepare(
                "SELECT rowid, ifnull(length(outcome), 0) FROM idem_record
                 WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2",
            )?,
            delete_row: connection.prepare("DELETE FROM idem_record WHERE rowid = ?1")?,
            clock,
            moment: clock.now(),
        })
    }

    /// Looks at the clocks: what follows happens now.
    pub(super) fn look_at_clocks(&mut self) {
        self.moment = self.clock.now();
    }

    pub(super) fn now(&self) -> Micros {
        self.moment.now
    }

    /// A moment later than every one this gave before, so that no two owners share an epoch.
    pub(super) fn later_than(&mut self, newest: &mut Micros) -> Micros {
        *newest = Micros(self.moment.now.0.max(newest.0 + 1));
        *newest
    }

    /// The record as it is stored, live or not.
    pub(super) fn head(&mut self, id: &RecordId) -> Result<Option<Slot>, Trouble> {
        let moment = self.moment;
        let read = self.head.query_row([id.as_bytes()], |row| Ok(slot(row, moment))).optional()?;
        Ok(read.transpose()?)
    }

    /// The outcome of the record that `token` completed, if it is still that.
    pub(super) fn outcome(&mut self, id: &RecordId, token: &Token) -> Result<Option<Bytes>, Trouble> {
        let read = self.outcome.query_row((id.as_bytes(), token.as_bytes()), |row| {
            Ok(row.get_ref(0)?.as_blob().map(Bytes::copy_from_slice))
        });
        Ok(read.optional()?.transpose().map_err(|_| CorruptRecord::new("outcome"))?)
    }

    pub(super) fn put(&mut self, id: &RecordId, slot: &Slot, outcome: Option<&[u8]>) -> Result<(), Trouble> {
        self.put.execute((
            id.as_bytes(),
            number(slot.state),
            slot.token.as_bytes(),
            signed(slot.epoch),
            slot.attempt,
            slot.hold,
            slot.fingerprint.as_bytes(),
            self.moment.boot(),
            signed(self.moment.lease_to_row(slot.lease_until)),
            signed(slot.expires),
            outcome,
        ))?;
        Ok(())
    }

    /// Removes the record. Says whether there was one.
    pub(super) fn delete(&mut self, id: &RecordId) -> Result<bool, Trouble> {
        Ok(self.delete.execute([id.as_bytes()])? > 0)
    }

    /// The first `rows` expired records.
    pub(super) fn expired(&mut self, rows: u32) -> Result<Vec<Expired>, Trouble> {
        let found = self.expired.query_map((signed(self.moment.now.millis()), rows), |row| {
            Ok(Expired { row: row.get(0)?, bytes: row.get::<_, i64>(1)?.unsigned_abs() })
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    pub(super) fn delete_expired(&mut self, expired: &Expired) -> Result<(), Trouble> {
        self.delete_row.execute([expired.row])?;
        Ok(())
    }
}

fn number(state: State) -> i64 {
    match state {
        State::InProgress => 1,
        State::Completed => 2,
        State::Unknown => 3,
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn slot(row: &Row<'_>, moment: Moment) -> Result<Slot, CorruptRecord> {
    let lease_until = unsigned(row, 7, "lease")?;
    Ok(Slot {
        state: match integer(row, 0, "state")? {
            1 => State::InProgress,
            2 => State::Completed,
            3 => State::Unknown,
            _ => return Err(CorruptRecord::new("state")),
        },
        token: Token::from_bytes(fixed(row, 1, "token")?),
        epoch: unsigned(row, 2, "epoch")?,
        attempt: u32::try_from(integer(row, 3, "attempt")?).map_err(|_| CorruptRecord::new("attempt"))?,
        hold: match integer(row, 4, "hold")? {
            0 => false,
            1 => true,
            _ => return Err(CorruptRecord::new("hold")),
        },
        fingerprint: Fingerprint::from_bytes(fixed(row, 5, "fingerprint")?),
        lease_until: moment.lease_from_row(blob(row, 6, "boot")?, lease_until),
        expires: unsigned(row, 8, "expiry")?,
    })
}

fn integer(row: &Row<'_>, at: usize, what: &'static str) -> Result<i64, CorruptRecord> {
    read(row.get_ref(at).map(|value| value.as_i64()), what)
}

fn unsigned(row: &Row<'_>, at: usize, what: &'static str) -> Result<u64, CorruptRecord> {
    u64::try_from(integer(row, at, what)?).map_err(|_| CorruptRecord::new(what))
}

fn blob<'r>(row: &'r Row<'_>, at: usize, what: &'static str) -> Result<&'r [u8], CorruptRecord> {
    read(row.get_ref(at).map(|value| value.as_blob()), what)
}

fn fixed<const N: usize>(row: &Row<'_>, at: usize, what: &'static str) -> Result<[u8; N], CorruptRecord> {
    blob(row, at, what)?.try_into().map_err(|_| CorruptRecord::new(what))
}

fn read<T>(value: rusqlite::Result<Result<T, FromSqlError>>, what: &'static str) -> Result<T, CorruptRecord> {
    value.ok().and_then(Result::ok).ok_or_else(|| CorruptRecord::new(what))
}
