//! Helpers shared by the integration tests.

// A helper that fails fails its test.
#![allow(clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

#[cfg(feature = "postgres")]
pub mod postgres;
pub mod process;
