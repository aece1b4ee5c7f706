//! Makes an axum handler safe to retry: a client that sends the same request twice is charged once and gets the same
//! answer twice.
//!
//! Write `#[idempotent(ttl = "24h")]` on the handler, put an [`Idempotency`] where the router's state is, and choose a
//! [store](store). The attribute's options, with an example and the errors of each, are in the docs of
#![cfg_attr(feature = "macros", doc = "[`macro@idempotent`].")]
#![cfg_attr(not(feature = "macros"), doc = "the attribute (feature `macros`).")]
//!
//! # Reading order
//!
//! 1. [`Idempotency`]: the handle, its builder, `connect`, `drain`, `forget`.
//!    [`Idempotency::layer`] guards routers, `Idempotency::once` consumers.
//! 2. [`store`]: which store, and how to write one.
//! 3. [`http`]: what a handler may use ([`Attempt`], [`Settle`]) and the problems that callers get.
#![cfg_attr(feature = "webhooks", doc = "4. [`webhooks`]: extractors that verify who sent a delivery.")]
#![cfg_attr(
    not(feature = "webhooks"),
    doc = "4. `webhooks` (feature `webhooks`): extractors that verify who sent a delivery."
)]
//! 5. [`protocol`] and [`fingerprint`]: the rules, for authors of stores and the curious.
//!
//! # Features
//!
//! | feature | |
//! |---|---|
//! | `macros` (default) | the attribute |
//! | `once` (default) | `Idempotency::once`, for consumers of messages |
//! | `sqlite`, `postgres`, `redis`, `redis-cluster` | durable stores |
//! | `metrics` | counters and histograms through the `metrics` facade |
//! | `webhooks` | extractors that verify webhooks' signatures |
//! | `utoipa` | the key and the problems as items of an OpenAPI document |
//! | `uuid` | `uuid::Uuid` as a key or scope |
//! | `conformance` | the suite that every store passes |
//! | `testing` | a store that fails on demand |
//!
//! # Guarantees
//!
//! While its record is in the store, a key has one owner at a time; a recorded outcome never changes; nobody gets another
//! caller's answer. [Which guarantee do I have?](guarantees) compares `retry`, `hold` and a transaction that is shared with the
//! record; the README's "What it promises" says under which assumptions, and what no library can promise.

extern crate self as idem_runtime;

// Code that says `crate::sync` or `crate::thread` is built a second time by the model, on primitives whose interleavings it decides.
use std::sync;
#[cfg(feature = "sqlite")]
use std::thread;

pub mod fingerprint;
#[doc = include_str!("guarantees.md")]
pub mod guarantees {}
pub mod http;
pub mod policy;
pub mod protocol;
pub mod store;
#[cfg(feature = "webhooks")]
pub mod webhooks;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod connect;
// The attribute's own; a link, since a published crate holds all of its files.
mod duration;
mod engine;
mod idempotency;
mod key_part;
#[cfg(feature = "once")]
mod once;
mod record;
mod rules;
mod telemetry;
mod values;

pub use connect::ConnectError;
pub use http::{Attempt, HasIdempotency, NeedsIdempotency, Settle};
#[cfg(feature = "macros")]
pub use idem_macros::idempotent;
pub use idempotency::{Builder, Idempotency};
pub use key_part::KeyPart;
#[cfg(feature = "once")]
pub use once::{Once, OnceError, OnceRun};
pub use policy::Policy;
pub use values::{Size, Time};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
