//! The application over HTTP, for a load generator: `serve NAME=URL…` puts the annotated handlers below `/NAME` over the
//! store of that URL, and the bare handler at `/bare`. `cache+` before a URL puts a local cache before the store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a measurement ends where it fails")]

use axum::Router;
use idem_benches::{annotated_at, bare_route};
use idem_runtime::Idempotency;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() {
    let mut router = Router::new().route("/bare", bare_route());
    for argument in std::env::args().skip(1) {
        let (name, url) = argument.split_once('=').expect("NAME=URL");
        let (url, cache) = url.strip_prefix("cache+").map_or((url, false), |url| (url, true));
        let builder = Idempotency::connect_builder(url).await.expect("a store");
        let builder = if cache { builder.local_cache(64 << 20) } else { builder };
        router = router.merge(annotated_at(&format!("/{name}"), builder.build()));
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    axum::serve(listener, router).await.unwrap();
}
