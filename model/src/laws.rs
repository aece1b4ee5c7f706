//! What must hold in every state.

/// A law, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Law {
    /// A completed record is what it is until it expires or is forgotten.
    CompletedNeverChanges,
    /// Who doesn't own the record changes nothing; a completion may store its outcome where there is no record.
    StrangersChangeNothing,
    /// Each grant to another owner has a higher epoch than all before; a claim that repeats keeps its own.
    EpochsGrow,
    /// A caller meets neither the record nor the outcome of another request.
    NobodyElsesAnswer,
    /// An owner that claims again is recognised.
    NobodyLockedOut,
    /// A purge deletes nothing that lives.
    OnlyTheExpiredIsPurged,
    /// A run starts only when its own claim was granted.
    NoRunWithoutClaim,
    /// No run starts while the outcome of another is recorded.
    NoRunOverAnOutcome,
    /// A record that says `hold` sees one run in its lifetime.
    HoldRunsOnce,
}

/// The laws that a history broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Laws(u16);

impl Laws {
    /// Notes that `law` is broken unless it `holds`.
    pub(crate) fn check(&mut self, law: Law, holds: bool) {
        if !holds {
            self.0 |= 1 << law as u8;
        }
    }

    /// Whether nothing has broken `law`.
    pub fn keep(self, law: Law) -> bool {
        self.0 & (1 << law as u8) == 0
    }
}
