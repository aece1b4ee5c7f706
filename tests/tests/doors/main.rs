//! The other doors: the fault, race and hang-up tests of the handler's door behind a layer, and what each door adds.

#![allow(
    clippy::unchecked_time_subtraction,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod browser;
#[cfg(feature = "sqlite")]
mod client;
mod layer;
mod once;
mod routes;

// What the handler's door is tested by, over the routes of this door.
#[path = "../failure/app.rs"]
mod app;
#[path = "../failure/claims.rs"]
mod claims;
#[path = "../failure/connections.rs"]
mod connections;
#[path = "../failure/leases.rs"]
mod leases;
#[path = "../failure/outcomes.rs"]
mod outcomes;
#[path = "../failure/panics.rs"]
mod panics;
#[path = "../failure/seen.rs"]
mod seen;
#[path = "../failure/settling.rs"]
mod settling;
#[path = "../failure/shutdown.rs"]
mod shutdown;
#[path = "../failure/waiting.rs"]
mod waiting;
