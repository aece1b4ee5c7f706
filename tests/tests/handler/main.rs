//! What a client of an annotated handler sees, through a listening server.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a helper that fails fails its test")]
#![allow(clippy::manual_assert, clippy::unused_async, reason = "handlers are as they are")]

mod app;
mod bodies;
mod callers;
mod example;
mod headers;
mod keys;
mod runs;
mod seed;
mod settling;
mod streams;
mod turns;
mod webhooks;
