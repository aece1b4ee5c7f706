//! Helpers shared by the integration tests.

pub mod process;
pub mod server;
