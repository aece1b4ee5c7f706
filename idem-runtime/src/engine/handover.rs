//! How a handler gets the transaction that its record commits in, and how the engine gets it back.

use std::{
    fmt, mem,
    pin::Pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::store::OpenTransaction;

type Hook = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Shared between a run and its handler's transaction parameter.
#[derive(Default)]
pub(crate) struct Handover {
    asked: AtomicUsize,
    place: Mutex<Place>,
    hooks: Mutex<Vec<Hook>>,
}

/// Where the transaction is.
#[derive(Default)]
enum Place {
    /// Not begun.
    #[default]
    Nowhere,
    /// Here, with nobody.
    Here(Box<dyn OpenTransaction>),
    /// With the handler.
    Lent,
    /// The run is over: what comes back now is too late.
    Closed,
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handover").field("asked", &self.asked()).finish_non_exhaustive()
    }
}

impl Handover {
    /// A parameter asks for the transaction.
    pub(crate) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// How many parameters asked for it.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Makes it available to the handler.
    pub(super) fn open(&self, transaction: Box<dyn OpenTransaction>) {
        *self.place() = Place::Here(transaction);
    }

    /// Lends it to the handler; `None` where there is none to lend.
    pub(crate) fn borrow(&self) -> Option<Box<dyn OpenTransaction>> {
        let mut place = self.place();
        match mem::replace(&mut *place, Place::Lent) {
            Place::Here(transaction) => Some(transaction),
            other => {
                *place = other;
                None
            }
        }
    }

    /// Takes it back from the handler. After the run's end it is dropped, and so rolled back.
    pub(crate) fn give_back(&self, transaction: Box<dyn OpenTransaction>) {
        let mut place = self.place();
        if matches!(*place, Place::Lent) {
            *place = Place::Here(transaction);
        }
    }

    /// Ends the run: the transaction, unless the handler kept it.
    pub(super) fn close(&self) -> Option<Box<dyn OpenTransaction>> {
        match mem::replace(&mut *self.place(), Place::Closed) {
            Place::Here(transaction) => Some(transaction),
            Place::Nowhere | Place::Lent | Place::Closed => None,
        }
    }

    /// Adds what is to run after the commit.
    pub(crate) fn after_commit(&self, hook: Hook) {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).push(hook);
    }

    /// Takes what is to run after the commit.
    pub(super) fn hooks(&self) -> Vec<Hook> {
        mem::take(&mut *self.hooks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
