//! The handle: one store, one configuration, cheap to clone.

use std::sync::Arc;

use crate::store::{DynStore, Store};

/// Guards handlers with one store. Cheap to clone; put it into the router's state.
#[derive(Clone)]
pub struct Idempotency {
    inner: Arc<dyn DynStore>,
}

impl std::fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idempotency").field("store", &self.inner.dyn_name()).finish()
    }
}

impl Idempotency {
    /// Guards with `store` and the default configuration.
    pub fn new(store: impl Store) -> Self {
        Self { inner: Arc::new(store) }
    }
}

/// Configures an [`Idempotency`].
#[derive(Debug)]
pub struct Builder;
