//! The memory and SQLite stores, built a second time on primitives whose interleavings a test decides.

pub(crate) use idem_runtime::store::*;

#[allow(dead_code, unreachable_pub, reason = "the runtime's own file")]
#[path = "../../idem-runtime/src/store/memory/mod.rs"]
pub(crate) mod memory;

#[allow(dead_code, unreachable_pub, reason = "the runtime's own file")]
#[path = "../../idem-runtime/src/store/sqlite/mod.rs"]
pub(crate) mod sqlite;
