//! The axum door: what the attribute's expansion talks to.

mod extract;
mod key;
mod provide;

pub use extract::{Expression, Head, InLayer, InState, KeyMode, NeedsIdempotency, Optional, OtherHeader, Required};
pub use provide::{HasIdempotency, Provides, Via, ViaArc, ViaFromRef, ViaLayer, ViaRef, ViaTrait};
