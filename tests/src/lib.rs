//! Helpers shared by the integration tests.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a helper that fails fails its test"
)]

#[cfg(feature = "postgres")]
pub mod postgres;
pub mod process;
pub mod proxy;
#[cfg(feature = "redis")]
pub mod redis;
pub mod server;
