//! A lint says of an annotated handler what it says of a plain one, and the wrapper adds nothing. Each `expect` fails the
//! build if its lint keeps silent; each lint that is forbidden fails it if the wrapper triggers or allows it.

#![deny(warnings, unfulfilled_lint_expectations)]
#![forbid(
    missing_docs,
    non_snake_case,
    single_use_lifetimes,
    trivial_casts,
    unreachable_code,
    unreachable_pub,
    unused_imports,
    unused_lifetimes,
    unused_parens,
    unused_qualifications,
    unused_results,
    clippy::pedantic,
    clippy::nursery,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]

use axum::{Json, Router, extract::State, routing::post};
use idem_runtime::{HasIdempotency, Idempotency, idempotent};

#[derive(Clone)]
struct App {
    idempotency: Idempotency,
}

impl HasIdempotency for App {
    fn idempotency(&self) -> &Idempotency {
        &self.idempotency
    }
}

#[idempotent(ttl = "24h")]
#[expect(unused_variables)]
async fn unused_below(State(app): State<App>, Json(body): Json<String>) {}

#[expect(unused_variables)]
#[idempotent(ttl = "24h", scope = "public")]
async fn unused_above(State(app): State<App>, Json(body): Json<String>) {}

/// What only the attribute reads is no unused variable.
#[idempotent(ttl = "24h", scope = (caller, body))]
async fn read_by_the_attribute(State(_app): State<App>, Json((caller, body)): Json<(String, String)>) {}

#[idempotent(ttl = "24h")]
async fn unused_parameter(State(_app): State<App>, #[expect(unused_variables)] Json(body): Json<String>) {}

#[idempotent(ttl = "24h")]
#[expect(unused_mut, unused_variables)]
async fn unused_mut(State(mut app): State<App>) {}

#[idempotent(ttl = "24h")]
#[expect(dead_code)]
async fn never_routed(State(_app): State<App>) {}

#[idempotent(ttl = "24h")]
#[deprecated]
async fn deprecated(State(_app): State<App>) {}

struct Api;

impl Api {
    #[idempotent(ttl = "24h")]
    #[expect(unused_variables)]
    async fn names_self(State(app): State<App>) {
        let Self = Self;
        std::future::ready(()).await;
    }

    #[idempotent(ttl = "24h")]
    #[expect(dead_code)]
    async fn never_routed(State(_app): State<App>) {
        let Self = Self;
        std::future::ready(()).await;
    }
}

/// What clippy expects is only looked at by clippy.
#[idempotent(ttl = "24h")]
#[expect(clippy::too_many_arguments, reason = "eight, as in the plain handler")]
async fn eight(
    _: State<App>,
    _: State<App>,
    _: State<App>,
    _: State<App>,
    _: State<App>,
    _: State<App>,
    _: State<App>,
    Json(_): Json<String>,
) {
}

#[test]
fn the_attribute_is_silent() {
    #[expect(deprecated)]
    let router: Router<App> = Router::new().route("/deprecated", post(deprecated));
    let router = router
        .route("/below", post(unused_below))
        .route("/above", post(unused_above))
        .route("/read", post(read_by_the_attribute))
        .route("/parameter", post(unused_parameter))
        .route("/mut", post(unused_mut))
        .route("/self", post(Api::names_self))
        .route("/eight", post(eight));
    drop(router);
}
