//! The sqlite store.
