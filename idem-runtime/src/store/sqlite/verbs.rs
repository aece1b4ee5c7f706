//! The verbs, each inside the transaction its caller holds. The rules are the protocol's.

use std::time::Duration;

use super::{table::Table, trouble::Trouble};
use crate::{
    protocol::{Decision, Micros, Slot},
    store::{Ack, Claim, Claimed, Completion, Purged, Record, RecordId, State, Token},
};

/// Answers a claim that needs no write: on a connection that only reads.
pub(super) fn look(table: &mut Table<'_>, claim: &Claim) -> Result<Option<Claimed>, Trouble> {
    let held = table.head(&claim.id)?;
    match Slot::claim(held.as_ref(), claim, table.now()) {
        Decision::Own(_) => Ok(None),
        refused => answer(table, claim, refused, held),
    }
}

pub(super) fn claim(table: &mut Table<'_>, claim: &Claim, newest: &mut Micros) -> Result<Claimed, Trouble> {
    let held = table.head(&claim.id)?;
    let now = table.later_than(newest);
    match Slot::claim(held.as_ref(), claim, now) {
        Decision::Own(slot) => {
            table.put(&claim.id, &slot, None)?;
            Ok(Claimed::Owner { epoch: slot.epoch, attempt: slot.attempt })
        }
        // Nobody else writes meanwhile, so a completed record that has no outcome never had one.
        refused => {
            answer(table, claim, refused, held)?.ok_or_else(|| crate::store::CorruptRecord::new("outcome").into())
        }
    }
}

/// What a refused claim is told; nothing when the record changed since it was looked at.
fn answer(
    table: &mut Table<'_>,
    claim: &Claim,
    refused: Decision,
    held: Option<Slot>,
) -> Result<Option<Claimed>, Trouble> {
    Ok(match (refused, held) {
        (Decision::Replay, Some(slot)) => {
            table.outcome(&claim.id, &slot.token)?.map(|outcome| Claimed::Replay { outcome })
        }
        (Decision::InProgress { left_ms }, _) => {
            Some(Claimed::InProgress { lease_left: Some(Duration::from_millis(left_ms)) })
        }
        (Decision::Mismatch, Some(slot)) => {
            Some(Claimed::Mismatch { stored: bytes::Bytes::copy_from_slice(slot.fingerprint.as_bytes()) })
        }
        (Decision::Unknown, _) => Some(Claimed::Unknown),
        _ => None,
    })
}

pub(super) fn renew(table: &mut Table<'_>, id: &RecordId, token: &Token, lease: Duration) -> Result<Ack, Trouble> {
    let now = table.now();
    match table.head(id)? {
        Some(mut slot) if slot.is_run_by(*token, now) => {
            slot.renew(lease, now);
            table.put(id, &slot, None)?;
            Ok(Ack::Done)
        }
        _ => Ok(Ack::Lost),
    }
}

pub(super) fn complete(table: &mut Table<'_>, completion: &Completion) -> Result<Ack, Trouble> {
    let held = table.head(&completion.id)?;
    let now = table.now();
    if let Some(ack) = Slot::complete(held.as_ref(), completion.token, now) {
        return Ok(ack);
    }
    table.put(&completion.id, &completion.slot(held.as_ref(), now), Some(&completion.outcome))?;
    Ok(Ack::Done)
}

pub(super) fn release(table: &mut Table<'_>, id: &RecordId, token: &Token) -> Result<Ack, Trouble> {
    let held = table.head(id)?;
    if let Some(ack) = Slot::release(held.as_ref(), *token, table.now()) {
        return Ok(ack);
    }
    table.delete(id)?;
    Ok(Ack::Done)
}

pub(super) fn hold(table: &mut Table<'_>, id: &RecordId, token: &Token, ttl: Duration) -> Result<Ack, Trouble> {
    let held = table.head(id)?;
    let now = table.now();
    if let Some(ack) = Slot::hold(held.as_ref(), *token, now) {
        return Ok(ack);
    }
    if let Some(mut slot) = held {
        slot.settle(State::Unknown, ttl, now);
        table.put(id, &slot, None)?;
    }
    Ok(Ack::Done)
}

pub(super) fn get(table: &mut Table<'_>, id: &RecordId) -> Result<Option<Record>, Trouble> {
    // Between head and outcome the record may be forgotten and made anew: then it is looked at again.
    loop {
        let now = table.now();
        let Some(slot) = table.head(id)?.filter(|slot| slot.is_live(now)) else { return Ok(None) };
        if slot.state != State::Completed {
            return Ok(Some(Record::new(&slot, None, now)));
        }
        if let Some(outcome) = table.outcome(id, &slot.token)? {
            return Ok(Some(Record::new(&slot, Some(outcome), now)));
        }
    }
}

/// Removes the record, one that can't be read too: this is how to get rid of it.
pub(super) fn forget(table: &mut Table<'_>, id: &RecordId) -> Result<bool, Trouble> {
    let now = table.now();
    let live = match table.head(id) {
        Ok(held) => held.is_some_and(|slot| slot.is_live(now)),
        Err(Trouble::Row(_)) => true,
        Err(other) => return Err(other),
    };
    Ok(table.delete(id)? && live)
}

/// Removes expired records, at most `rows` and about `bytes`.
pub(super) fn purge(table: &mut Table<'_>, rows: u32, bytes: u64) -> Result<Purged, Trouble> {
    // One more than may go tells whether any is left.
    let expired = table.expired(rows.saturating_add(1))?;
    let (mut removed, mut freed) = (0, 0);
    for row in expired.iter().take(rows as usize) {
        if removed > 0 && freed >= bytes {
            break;
        }
        table.delete_expired(row)?;
        removed += 1;
        freed = freed.saturating_add(row.bytes);
    }
    Ok(Purged { removed, more: removed < expired.len() as u64 })
}
