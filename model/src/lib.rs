//! The promise, checked in every state of a small world.
//!
//! [`Model`] is a world of a few clients that retry one key against one store, over a network that loses, delays, reorders
//! and repeats calls. The rules are not copied: the store's side runs `idem_runtime::protocol`'s [`Slot`], the owner's
//! side its [`Fence`]. What the engine does round them is restated in [`client`], a little freer than it is: whatever the
//! engine can do, the model can.
//!
//! What must hold in every state are the [`laws`]. [`Fault`] breaks one rule at a time, to see that a law notices.
//!
//! [`Slot`]: idem_runtime::protocol::Slot
//! [`Fence`]: idem_runtime::protocol::Fence

pub mod client;
pub mod held;
pub mod laws;
pub mod model;
pub mod world;

pub use laws::Law;
pub use model::Model;
pub use world::{Fault, Scene, World};
