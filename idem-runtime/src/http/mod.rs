//! The axum and tower doors: what the attribute's expansion talks to, and what an application meets.

mod attempt;
mod body;
mod capture;
mod expand_state;
mod extract;
mod guard;
mod handover;
mod headers;
mod key;
mod layer;
mod loan;
#[cfg(feature = "utoipa")]
mod openapi;
mod problem;
mod provide;
mod recordable;
mod replay;
mod require;
mod settle;
mod stream;

pub use attempt::Attempt;
pub use expand_state::{Argument, Incoming, LastArgument, Skipped, last_of, part_of, supplied_by_layer, supply, then};
pub use extract::{Expression, Head, InLayer, InState, KeyMode, NeedsIdempotency, Optional, OtherHeader, Required};
pub(crate) use guard::{Answering, guard};
pub use headers::{EXPOSED_HEADERS, REQUEST_HEADERS};
pub use layer::{Guarded, IdempotencyLayer, LayerPolicy};
pub use loan::Loan;
#[cfg(feature = "utoipa")]
pub use openapi::{IdempotencyKey, IdempotencyResponses, IdempotentOperations, OptionalIdempotencyKey};
pub use problem::{
    CommitRefused, CommitUnknown, InProgress, KeyInvalid, KeyMissing, KeyReused, LeaseLost, NotInstalled,
    NotTransactional, OutcomeUnknown, Problem, RolledBack, StoreUnavailable,
};
#[cfg(feature = "webhooks")]
pub(crate) use problem::{answer, problems};
pub use provide::{HasIdempotency, Provides, Via, ViaArc, ViaFromRef, ViaLayer, ViaRef, ViaTrait};
pub use recordable::Recordable;
pub use replay::Replayed;
pub use require::{RequireKey, RequireKeyLayer};
pub use settle::Settle;
