//! Each store beside the statements that one would write by hand on the same server, and a handler beside the same one
//! without the attribute: both in turns, so that what else the machine does hurts both.
//!
//! `pairs FOLDER WORDS [URL…]`: SQLite in FOLDER, and the servers of the URLs; only what has WORDS in its title.
//! `scripts/bench pairs` runs it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a measurement ends where it fails"
)]

mod postgres;
mod redis;
mod sqlite;
mod turns;
mod tx;
mod work;

use turns::Turns;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder");
    let turns = Turns::begin(arguments.next().unwrap_or_default());
    sqlite::compare(&turns, &folder).await;
    for url in arguments {
        if url.starts_with("redis") {
            redis::compare(&turns, &url).await;
        } else {
            postgres::compare(&turns, &url).await;
            tx::compare(&turns, &url).await;
        }
    }
}
