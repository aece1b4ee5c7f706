//! Records in Redis.

/// Keeps records in Redis.
#[derive(Debug)]
pub struct RedisStore;
