//! Handlers whose record commits with their own writes, against real PostgreSQL servers: whatever breaks, a key that was
//! acknowledged has one row, no key has two, and no answer names a row that isn't there.

#![cfg(feature = "postgres")]
#![allow(
    clippy::unchecked_time_subtraction,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod answers;
mod app;
mod conflicts;
mod cut;
mod duplicates;
mod failpoints;
mod hangups;
mod inbox;
mod killed;
mod other;
mod pooled;
mod refused;
#[path = "../failure/seen.rs"]
#[expect(dead_code, reason = "the failure tests look at more")]
mod seen;
mod trips;
