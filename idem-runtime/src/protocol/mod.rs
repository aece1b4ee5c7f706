//! The rules, as pure data and functions: no IO, no clock, no async, no HTTP.

mod fence;
mod id;
mod slot;

pub use crate::fingerprint::Fingerprint;
pub use fence::{Fence, Reading};
pub use id::{RecordId, Token};
pub use slot::{Ack, Claim, Decision, Micros, Slot, State, millis};
