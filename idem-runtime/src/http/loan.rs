//! The transaction that a handler shares with its record, as a parameter of the handler.

use std::{convert::Infallible, sync::Arc};

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::attempt;
use crate::{engine::AttemptCell, store::OpenTransaction};

/// For authors of stores: what a handler's transaction parameter is made of, as
#[cfg_attr(feature = "postgres", doc = "[`Tx`](crate::store::postgres::Tx)")]
#[cfg_attr(not(feature = "postgres"), doc = "`PostgresStore`'s `Tx`")]
/// is.
///
/// To extract it is to ask for a transaction: the handler then runs in one that
/// [`Transactional::begin`](crate::store::Transactional::begin) opened. It is there once the handler runs, and must be given
/// back before the answer's body ends; drop does that best.
#[derive(Debug)]
pub struct Loan(Arc<AttemptCell>);

impl Loan {
    /// Takes the transaction; `None` outside the run of a guarded handler, and where it is lent already.
    pub fn take(&self) -> Option<Box<dyn OpenTransaction>> {
        self.0.handover().borrow()
    }

    /// Gives the transaction back, to be committed or rolled back. After the run's end it is dropped.
    pub fn give_back(&self, transaction: Box<dyn OpenTransaction>) {
        self.0.handover().give_back(transaction);
    }

    /// Runs `effect` in a task of its own once the commit is known; never if it isn't.
    pub fn after_commit(&self, effect: impl Future<Output = ()> + Send + 'static) {
        self.0.handover().after_commit(Box::pin(effect));
    }
}

impl<S: Sync> FromRequestParts<S> for Loan {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let cell = attempt::cell(&mut parts.extensions);
        cell.handover().ask();
        Ok(Self(cell))
    }
}

#[cfg(feature = "postgres")]
impl<S: Sync> FromRequestParts<S> for crate::store::postgres::Tx {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Loan::from_request_parts(parts, state).await.map(Self::new)
    }
}
