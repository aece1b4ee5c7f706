//! Everything that can fail, at every point where it can: each case checks what ran, what the caller got, what the
//! record says, and what the operators see.

#![allow(
    clippy::unchecked_time_subtraction,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod app;
mod cached;
mod cases;
mod claims;
mod connections;
mod encodings;
mod leases;
mod outcomes;
mod panics;
mod routes;
mod secrets;
mod seen;
mod settling;
mod shutdown;
mod waiting;
