//! The promise, checked in every state of a small world.
//!
//! [`Model`] is a world of a few clients that retry one key against one store, over a network that loses, delays, reorders
//! and repeats calls. The rules are not copied: the store's side runs `idem_runtime::protocol`'s [`Slot`], the owner's
//! side its [`Fence`]. What the engine does round them is restated in [`client`], a little freer than it is: whatever the
//! engine can do, the model can.
//!
//! What must hold in every state are the [`laws`]. [`Fault`] breaks one rule at a time, to see that a law notices.
//!
//! Apart from that, [`interleave`] runs the runtime's own memory store, SQLite store and waiters with every lock, channel and
//! atomic under a scheduler's control.
//!
//! [`Slot`]: idem_runtime::protocol::Slot
//! [`Fence`]: idem_runtime::protocol::Fence

#![allow(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "all of it is test code, outside of test functions"
)]

pub mod client;
pub mod held;
#[cfg(not(test))]
pub mod interleave;
pub mod laws;
pub mod model;
#[cfg(not(test))]
mod store;
#[cfg(not(test))]
#[expect(dead_code, reason = "the runtime's own file")]
#[path = "../../idem-runtime/src/engine/waiters.rs"]
mod waiters;
pub mod world;

#[cfg(not(test))]
use idem_runtime::protocol;
#[cfg(not(test))]
use shuttle::{sync, thread};

pub use laws::Law;
pub use model::Model;
pub use world::{Fault, Scene, World};
