//! Makes an axum handler safe to retry.

extern crate self as idem_runtime;

// Code that says `crate::sync` is built a second time by the model, on primitives whose interleavings it decides.
use std::sync;

pub mod fingerprint;
pub mod http;
pub mod policy;
pub mod protocol;
pub mod store;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod connect;
mod engine;
mod idempotency;
mod key_part;
mod record;
mod telemetry;

pub use connect::ConnectError;
pub use http::{Attempt, HasIdempotency, NeedsIdempotency, Settle};
#[cfg(feature = "macros")]
pub use idem_macros::idempotent;
pub use idempotency::{Builder, Idempotency};
pub use key_part::KeyPart;
