//! Every store, through the conformance suite and against real servers.

#![allow(
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    reason = "the reference looks like the stores it is compared with"
)]

mod history;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
mod processes;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;

/// A run without the other stores says so.
#[test]
fn all_stores_are_built() {
    let stores = [
        ("sqlite", cfg!(feature = "sqlite")),
        ("postgres", cfg!(feature = "postgres")),
        ("redis", cfg!(feature = "redis")),
    ];
    for (store, _) in stores.into_iter().filter(|(_, built)| !built) {
        idem_tests::process::skip(&format!("the {store} store is not built; scripts/test builds it"));
    }
}
