//! Records in this process's memory.

/// Keeps records in this process's memory: nothing survives the process, and no other process sees them.
#[derive(Debug, Default)]
pub struct MemoryStore;
