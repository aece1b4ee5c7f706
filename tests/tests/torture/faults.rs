//! What was done to whom, and when.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// The wall clock in milliseconds, which every process of the machine shares.
pub(crate) fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Store,
    Process(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) what: &'static str,
    pub(crate) whom: Whom,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// The list of all that was done.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    /// Notes a fault that began at `from` and has just ended.
    pub(crate) fn note(&self, what: &'static str, whom: Whom, from: u64) {
        let fault = Fault { what, whom, from, until: now() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }

    /// Whether the store or this process was hurt at any time from `from` to `until`, or as long as `after` before.
    pub(crate) fn hurt(&self, process: u32, time: (u64, u64), after: Duration) -> bool {
        self.any(process, time, after, |_| true)
    }

    /// The same by what leaves the process alive, so that it frees its key when it can't prove its lease.
    pub(crate) fn held_up(&self, process: u32, time: (u64, u64), after: Duration) -> bool {
        self.any(process, time, after, |what| what.starts_with("store") || what == "process suspended")
    }

    fn any(&self, process: u32, (from, until): (u64, u64), after: Duration, counts: fn(&str) -> bool) -> bool {
        let after = u64::try_from(after.as_millis()).unwrap();
        let faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        faults.iter().any(|fault| {
            counts(fault.what)
                && [Whom::Store, Whom::Process(process)].contains(&fault.whom)
                && fault.from <= until
                && fault.until + after >= from
        })
    }

    /// How many percent of the time from `from` on no fault of the store explains, nor one that ended less than `after` before.
    pub(crate) fn quiet(&self, from: u64, after: Duration) -> u64 {
        let (end, after) = (now(), u64::try_from(after.as_millis()).unwrap());
        let faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut store: Vec<_> = faults.iter().filter(|fault| fault.whom == Whom::Store).collect();
        store.sort_by_key(|fault| fault.from);
        let (mut loud, mut seen) = (0, from);
        for fault in store {
            let until = (fault.until + after).min(end);
            loud += until.saturating_sub(fault.from.max(seen));
            seen = seen.max(until);
        }
        100 - 100 * loud / (end - from).max(1)
    }

    /// How often each thing was done.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for fault in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            *counts.entry(fault.what).or_default() += 1;
        }
        counts
    }
}
