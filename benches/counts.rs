//! Instructions and allocations of the hot paths, under valgrind: the same on every run and under any load.
//!
//! Each limit is what was counted when it was written, and a little. `cargo bench -p idem-benches --bench counts`
//! compares; see README.md beside this file for what the figures say.

#![allow(
    missing_docs,
    unused_qualifications,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement"
)]

use std::hint::black_box;

use axum::{Router, extract::Request, response::Response};
use gungraun::{
    Callgrind, Dhat, DhatMetric, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use http::HeaderMap;
use idem_benches::{annotated, bare_route, bodies::KINDS, fingerprint_of, key_length, request};
use idem_runtime::{Idempotency, store::MemoryStore};
use tokio::runtime::Runtime;
use tower::{Service as _, ServiceExt as _};

/// At most so many instructions and allocations.
fn at_most(instructions: u64, allocations: u64) -> LibraryBenchmarkConfig {
    let mut config = LibraryBenchmarkConfig::default();
    let mut callgrind = Callgrind::with_args(["--cache-sim=no"]);
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut dhat = Dhat::with_args(["--num-callers=200"]);
    dhat.hard_limits([(DhatMetric::TotalBlocks, allocations)]);
    config.tool(callgrind).tool(dhat);
    config
}

/// A service that has answered before, so that nothing is done for the first time, and the next request.
struct Door {
    runtime: Runtime,
    router: Router,
    request: Request,
}

impl Door {
    fn open(router: Router, path: &str, key: Option<&str>, warm: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for key in warm {
            runtime.block_on(router.clone().oneshot(request(path, Some(key)))).unwrap();
        }
        Self { runtime, router, request: request(path, key) }
    }

    /// Sends the request. The service comes back too: its end is nobody's request.
    fn pass(mut self) -> (Runtime, Router, Response) {
        let response = self.runtime.block_on(self.router.call(self.request)).unwrap();
        (self.runtime, self.router, response)
    }
}

const WARM: [&str; 3] = ["0c5d7d", "1c5d7d", "1c5d7d"];

fn memory() -> Router {
    annotated(Idempotency::new(MemoryStore::new()))
}

fn cached() -> Router {
    annotated(Idempotency::builder(MemoryStore::new()).local_cache(1 << 20).build())
}

fn bare() -> Door {
    Door::open(Router::new().route("/bare", bare_route()), "/bare", None, &WARM)
}

fn keyless() -> Door {
    Door::open(memory(), "/optional", None, &WARM)
}

fn first() -> Door {
    Door::open(memory(), "/guarded", Some("8e03978e-40d5-43e8-bc93-6894a57f9324"), &WARM)
}

fn replay() -> Door {
    Door::open(memory(), "/guarded", Some("1c5d7d"), &WARM)
}

fn cached_replay() -> Door {
    Door::open(cached(), "/guarded", Some("1c5d7d"), &WARM)
}

#[library_benchmark]
#[bench::bare(args = (), setup = bare, config = at_most(16_300, 29))]
#[bench::keyless(args = (), setup = keyless, config = at_most(18_250, 30))]
#[bench::first(args = (), setup = first, config = at_most(50_400, 46))]
#[bench::replay(args = (), setup = replay, config = at_most(40_200, 39))]
#[bench::cached_replay(args = (), setup = cached_replay, config = at_most(40_150, 38))]
fn request_to(door: Door) -> (Runtime, Router, Response) {
    black_box(door.pass())
}

fn headers(key: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", key.parse().unwrap());
    key_length(&headers);
    headers
}

#[library_benchmark]
#[bench::bare(args = ("8e03978e-40d5-43e8-bc93-6894a57f9324"), setup = headers, config = at_most(1_520, 0))]
#[bench::quoted(args = ("\"8e03978e-40d5-43e8-bc93-6894a57f9324\""), setup = headers, config = at_most(3_160, 5))]
fn key(headers: HeaderMap) -> usize {
    black_box(key_length(black_box(&headers)))
}

/// A body of about so many bytes; the first fingerprint finds out what the processor can do.
fn body(kind: usize, bytes: usize) -> (&'static str, Vec<u8>) {
    fingerprint_of("text/plain", b"");
    (KINDS[kind].content_type, KINDS[kind].body(bytes))
}

#[library_benchmark]
#[bench::json_200(args = (0, 200), setup = body, config = at_most(27_150, 2))]
#[bench::json_64k(args = (0, 65_536), setup = body, config = at_most(4_590_000, 2))]
#[bench::reversed_64k(args = (1, 65_536), setup = body, config = at_most(5_020_000, 3))]
#[bench::indented_64k(args = (2, 65_536), setup = body, config = at_most(5_230_000, 3))]
#[bench::form_64k(args = (3, 65_536), setup = body, config = at_most(9_480_000, 14))]
#[bench::multipart_64k(args = (4, 65_536), setup = body, config = at_most(3_540_000, 7))]
#[bench::raw_64k(args = (5, 65_536), setup = body, config = at_most(3_490_000, 0))]
fn fingerprint((content_type, body): (&'static str, Vec<u8>)) -> [u8; 45] {
    black_box(fingerprint_of(content_type, black_box(&body)))
}

library_benchmark_group!(name = requests, benchmarks = [request_to]);
library_benchmark_group!(name = parts, benchmarks = [key, fingerprint]);
main!(library_benchmark_groups = requests, parts);
