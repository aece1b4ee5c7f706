//! The postgres store.
