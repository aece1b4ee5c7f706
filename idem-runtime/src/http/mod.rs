//! The axum door: what the attribute's expansion talks to.

mod expand_state;
mod extract;
mod provide;

pub use expand_state::{Incoming, Skipped, last_of, part_of, supply};
pub use extract::{Expression, Head, InLayer, InState, KeyMode, NeedsIdempotency, Optional, OtherHeader, Required};
pub use provide::{HasIdempotency, Provides, Via, ViaArc, ViaFromRef, ViaLayer, ViaRef, ViaTrait};
