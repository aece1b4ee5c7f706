//! Drives a store and the protocol round a future: claim, run detached, renew, settle, wait. Knows no HTTP.

mod waiters;

pub(crate) use waiters::Waiters;
