//! The contract of a store, as code.
