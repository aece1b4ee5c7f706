//! What a layer adds: annotated handlers below it, other services, methods, limits, and the light layer.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, FromRequestParts, State},
    http::{HeaderMap, Method, Request, StatusCode, request::Parts},
    response::IntoResponse,
    routing::{any, post},
};
use futures::future::join_all;
use idem_runtime::{
    Attempt, Idempotency, Policy, idempotent,
    policy::{BodyFingerprint, Unknown},
    store::{Fault, Gate, MemoryStore, Verb},
};
use idem_tests::server::Answer;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::app::{App, Ledger, Test, held_up, refused, start_with};

/// An extractor that refuses strangers, and takes its time over `x-slow`.
struct Known;

impl<S: Sync> FromRequestParts<S> for Known {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        if parts.headers.contains_key("x-slow") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if parts.headers.contains_key("x-stranger") { Err(StatusCode::NOT_FOUND) } else { Ok(Self) }
    }
}

#[idempotent(ttl = "24h", lease = "2s", wait = "20s", fingerprint = none, scope = "public")]
async fn annotated(State(ledger): State<Ledger>, attempt: Attempt, _: Known, _: Bytes) -> impl IntoResponse {
    held_up(ledger, attempt).await
}

#[idempotent(ttl = "24h", optional)]
async fn free(State(ledger): State<Ledger>, attempt: Attempt) -> String {
    format!("{} {:?}", ledger.number(), attempt.epoch())
}

#[idempotent(ttl = "24h", optional, header = "X-Request-Id")]
async fn other_key(State(ledger): State<Ledger>) -> String {
    ledger.number().to_string()
}

async fn plain(State(ledger): State<Ledger>, _: Bytes) -> impl IntoResponse {
    ledger.begin().end()
}

/// One router with annotated and plain handlers under one layer.
fn router(app: App) -> Router {
    let layer = app.idempotency.layer(Policy::ttl("24h").lease("6s"));
    Router::new()
        .route("/annotated", post(annotated))
        .route("/free", any(free))
        .route("/other-key", any(other_key))
        .route("/plain", any(plain))
        .layer(layer)
        .with_state(app)
}

async fn start() -> Test {
    start_with(|builder| builder, router).await
}

/// Duplicates wait for the first run, as its own policy says: one record, and one outcome for each request.
#[tokio::test]
async fn an_annotated_handler_below_is_claimed_once() {
    let test = start().await;
    // The second time the layer knows that something below takes over, and the extractors may take their time.
    for (key, slow) in [("k1", false), ("k2", true)] {
        let (runs, before) = (test.ledger.runs(), test.seen.outcomes().len());
        let sending = tokio::spawn(join_all((0..16).map(|_| {
            let request = test.server.post("/annotated", key);
            Answer::to(if slow { request.header("x-slow", "1") } else { request })
        })));
        test.ledger.begun(runs + 1).await;
        test.ledger.open();
        let answers = sending.await.unwrap();
        for answer in &answers {
            assert_eq!((answer.status, answer.text()), (201, (runs + 1).to_string()));
        }
        assert_eq!(answers.iter().filter(|answer| answer.is_replay()).count(), 15);
        test.drained().await;
        let outcomes = test.seen.outcomes().split_off(before);
        assert_eq!(outcomes.len(), 16, "{outcomes:?}");
        assert_eq!(outcomes.iter().filter(|outcome| *outcome == "executed").count(), 1);
    }
    assert!(test.seen.events().iter().all(|event| event["operation"] == "POST /annotated"), "{}", test.seen.text());
    // Every claim of the layer's was released, and there is nothing under its name.
    assert_eq!(test.store.calls(Verb::Complete), 2);
    assert!(test.idempotency.forget("POST /annotated", "public", "k1").await.unwrap());
    assert!(!test.idempotency.forget("layer POST /annotated", &Idempotency::NO_SCOPE, "k1").await.unwrap());
}

/// Its own fingerprint and scope decide, not the layer's.
#[tokio::test]
async fn an_annotated_handler_below_keeps_its_own_policy() {
    let test = start().await;
    test.ledger.open();
    for at in 0..3 {
        let request = test.server.post("/annotated", "k1").body(at.to_string());
        let answer = Answer::to(request.header("authorization", at.to_string())).await;
        assert_eq!((answer.status, answer.text().as_str(), answer.is_replay()), (201, "1", at > 0));
    }
    // A duplicate of the run itself meets the handler's claim: there is none of the layer's.
    let first = tokio::spawn(Answer::to(test.server.post("/annotated", "k2").body("a")));
    test.ledger.begun(2).await;
    let second = tokio::spawn(Answer::to(test.server.post("/annotated", "k2").body("b")));
    test.ledger.open();
    assert_eq!(second.await.unwrap().text(), "2");
    assert_eq!(first.await.unwrap().text(), "2");
}

/// What its extractors say counts on a replay too.
#[tokio::test]
async fn extractors_of_an_annotated_handler_below_run_on_replays() {
    let test = start().await;
    test.ledger.open();
    assert_eq!(test.send("/annotated").await.status, 201);
    let stranger = Answer::to(test.server.post("/annotated", "k1").header("x-stranger", "1")).await;
    assert_eq!((stranger.status, stranger.is_replay()), (404, false));
}

/// A handler below that has no key of its own doesn't guard, so the layer goes on guarding.
#[tokio::test]
async fn a_keyless_handler_below_stays_guarded() {
    let test = start().await;
    let send = async |own: Option<&str>| {
        let request = test.server.post("/other-key", "k1");
        let answer =
            Answer::to(own.into_iter().fold(request, |request, own| request.header("x-request-id", own))).await;
        (answer.text(), answer.is_replay())
    };
    assert_eq!(send(None).await, ("1".to_owned(), false));
    assert_eq!(send(None).await, ("1".to_owned(), true));
    assert_eq!(test.ledger.runs(), 1);
}

/// The names that a handler sees are those of its own attempt.
#[tokio::test]
async fn an_attempt_is_the_handlers_own() {
    let test = start().await;
    let answer = test.send("/free").await.text();
    let record = test.record().await.unwrap();
    assert_eq!(answer, format!("1 Some({})", record.epoch));
}

/// The process goes between the two claims, or the store fails at the second: nothing has run, and nothing is left behind.
#[tokio::test]
async fn a_handover_meets_an_outage() {
    let test = start().await;
    test.ledger.open();
    for call in 2..5 {
        test.store.nth(Verb::Claim, call, Fault::Fail);
    }
    refused(&test.send("/annotated").await, 503, "idempotency_store_unavailable", Some("1"));
    assert_eq!((test.ledger.runs(), test.store.calls(Verb::Claim)), (0, 4));
    assert_eq!(test.send("/annotated").await.status, 201);
    test.drained().await;
    test.check(1, &["store_error", "executed"]);
}

/// The layer's release fails: the handler guards itself all the same.
#[tokio::test]
async fn a_handover_whose_release_fails_is_repeated() {
    let test = start().await;
    test.ledger.open();
    test.store.next(Verb::Release, Fault::Fail);
    assert_eq!(test.send("/annotated").await.status, 201);
    test.drained().await;
    assert!(test.send("/annotated").await.is_replay());
    test.check(1, &["executed", "replayed"]);
}

/// The client goes while the layer lets go: the handler never starts, and both claims are gone.
#[tokio::test]
async fn a_client_that_hangs_up_in_a_handover_leaves_nothing() {
    let test = start().await;
    let gate = Gate::new();
    test.store.next(Verb::Release, Fault::Delay(gate.clone()));
    let app = router(App { ledger: test.ledger.clone(), idempotency: test.idempotency.clone() });
    let request = Request::post("/annotated").header("idempotency-key", "k1").body(Body::empty()).unwrap();
    let caller = tokio::spawn(app.oneshot(request));
    test.arrived(Verb::Release, 1).await;
    // What a server does with a request whose connection is gone.
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    gate.open();
    test.drained().await;
    test.ledger.open();
    assert_eq!(test.send("/annotated").await.status, 201);
    assert_eq!((test.ledger.runs(), test.ledger.dropped()), (1, 0));
}

/// The client goes while the annotated handler runs.
#[tokio::test]
async fn a_client_that_hangs_up_does_not_stop_an_annotated_run() {
    let test = start().await;
    let request = "POST /annotated HTTP/1.1\r\nhost: x\r\nidempotency-key: k1\r\ncontent-length: 0\r\n\r\n";
    let stream = test.server.send_raw(request).await;
    test.ledger.begun(1).await;
    stream.set_zero_linger().unwrap();
    drop(stream);
    test.ledger.open();
    test.drained().await;
    assert!(test.send("/annotated").await.is_replay());
    test.check(1, &["executed", "replayed"]);
}

/// POST and PATCH are guarded, each as an operation; PUT, DELETE and GET pass through.
#[tokio::test]
async fn post_and_patch_are_guarded_by_default() {
    let test = start().await;
    let send = |method: &str, key: Option<&str>| {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = reqwest::Client::new().request(method, test.server.url("/plain"));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        Answer::to(request)
    };
    for method in ["POST", "PATCH"] {
        assert_eq!(send(method, None).await.problem(), "idempotency_key_missing");
        let first = send(method, Some("k1")).await;
        let second = send(method, Some("k1")).await;
        assert_eq!((first.is_replay(), second.is_replay(), second.body), (false, true, first.body));
    }
    assert_eq!(test.ledger.runs(), 2);
    for method in ["PUT", "DELETE", "GET"] {
        assert!(!send(method, None).await.is_replay());
        assert!(!send(method, Some("k1")).await.is_replay());
    }
    assert_eq!(test.ledger.runs(), 8);
}

/// Two layers: the inner one guards.
#[tokio::test]
async fn of_two_layers_the_inner_one_guards() {
    let test = start_with(
        |builder| builder,
        |app: App| {
            let outer = app.idempotency.layer(Policy::ttl("24h"));
            let inner = app.idempotency.layer(Policy::ttl("24h").operation("inner").fingerprint(BodyFingerprint::None));
            Router::new().route("/plain", post(plain)).layer(inner).layer(outer).with_state(app)
        },
    )
    .await;
    for body in ["a", "b", "b"] {
        let answer = Answer::to(test.server.post("/plain", "k1").body(body)).await;
        assert_eq!((answer.status, answer.text().as_str()), (201, "1"));
    }
    test.check(1, &["executed", "replayed", "replayed"]);
    assert!(test.seen.events().iter().all(|event| event["operation"] == "layer inner"));
}

/// `scope` and `key` are read from the head, where a layer outside left them.
#[tokio::test]
async fn scope_and_key_come_from_the_head() {
    let test = start_with(
        |builder| builder,
        |app: App| {
            let text = |head: &Parts, name: &str| Some(head.headers.get(name)?.to_str().ok()?.to_owned());
            let policy =
                Policy::ttl("24h").scope(move |head| text(head, "x-user")).key(move |head| text(head, "x-event"));
            Router::new().route("/plain", post(plain)).layer(app.idempotency.layer(policy)).with_state(app)
        },
    )
    .await;
    let send = async |user: &str, event: &str, credential: &str| {
        let request = test.server.keyless("/plain").header("x-user", user).header("x-event", event);
        Answer::to(request.header("authorization", credential)).await.text()
    };
    assert_eq!(send("ann", "e1", "old").await, "1");
    assert_eq!(send("ann", "e1", "rotated").await, "1");
    assert_eq!(send("bob", "e1", "old").await, "2");
    assert_eq!(send("ann", "e2", "old").await, "3");
    assert_eq!(Answer::to(test.server.keyless("/plain")).await.problem(), "idempotency_key_missing");
    assert!(test.idempotency.forget("layer POST /plain", "ann", "e1").await.unwrap());
    assert_eq!(send("ann", "e1", "old").await, "4");
}

/// The router's limit holds for what the layer reads, wherever it was set outside.
#[tokio::test]
async fn bodies_obey_the_routers_limit() {
    for (limit, size, status) in
        [(None, 3 << 20, 413), (Some(16), 17, 413), (Some(16), 16, 201), (Some(4 << 20), 3 << 20, 201)]
    {
        let test = start_with(
            |builder| builder,
            |app: App| {
                let router =
                    Router::new().route("/plain", post(plain)).layer(app.idempotency.layer(Policy::ttl("24h")));
                let router = router.with_state(app);
                if let Some(limit) = limit { router.layer(DefaultBodyLimit::max(limit)) } else { router }
            },
        )
        .await;
        let answer = Answer::to(test.server.post("/plain", "k1").body(vec![b'x'; size])).await;
        assert_eq!(answer.status, status, "{limit:?} {size}");
        let calls = test.store.calls(Verb::Claim);
        assert_eq!(calls, usize::from(status == 201), "nothing is claimed for a body that isn't read");
    }
}

/// A service that is no router, with a body and an error of its own.
#[tokio::test]
async fn a_service_that_fails_is_never_kept() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let service = service_fn(move |_: Request<Body>| {
        let run = counted.fetch_add(1, SeqCst) + 1;
        async move { if run == 1 { Err("broken") } else { Ok(run.to_string()) } }
    });
    let idempotency = Idempotency::new(MemoryStore::new());
    let service = idempotency.layer(Policy::ttl("24h")).layer(service);
    let send = async || {
        let body = http_body_util::Full::new(Bytes::from_static(b"x"));
        let request = Request::post("/a/1").header("idempotency-key", "k1").body(body).unwrap();
        service.clone().oneshot(request).await.map(|response| response.headers().clone())
    };
    assert_eq!(send().await, Err("broken"));
    assert_eq!(
        send().await,
        Ok(HeaderMap::from_iter([("content-type".parse().unwrap(), "text/plain; charset=utf-8".parse().unwrap(),)]))
    );
    assert!(send().await.unwrap().contains_key("idempotent-replayed"));
    assert_eq!(runs.load(SeqCst), 2);
    assert!(idempotency.forget("layer POST /a/1", &Idempotency::NO_SCOPE, "k1").await.unwrap());
}

/// T10: a quota inside counts runs, so a retry whose first attempt took the last of it gets its answer.
#[tokio::test]
async fn a_replay_passes_a_quota_inside() {
    let left = Arc::new(AtomicUsize::new(1));
    let quota = Arc::clone(&left);
    let limited = service_fn(move |_: Request<Body>| {
        let taken = quota.try_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        async move { Ok::<_, Infallible>(taken.map_or(StatusCode::TOO_MANY_REQUESTS, |_| StatusCode::CREATED)) }
    });
    let service = Idempotency::new(MemoryStore::new()).layer(Policy::ttl("24h")).layer(limited);
    let send = async |key| {
        let request = Request::post("/").header("idempotency-key", key).body(Body::empty()).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        (response.status().as_u16(), response.headers().contains_key("idempotent-replayed"))
    };
    assert_eq!(send("k1").await, (201, false));
    assert_eq!(send("k1").await, (201, true));
    assert_eq!(send("k2").await, (429, false));
    left.store(1, SeqCst);
    assert_eq!(send("k2").await, (201, false), "a refusal is not kept");
}

/// With `hold` an error of the service leaves its outcome unknown.
#[tokio::test]
async fn a_service_that_fails_is_held_where_that_was_asked_for() {
    let service = service_fn(|_: Request<Body>| async { Err::<StatusCode, _>("broken") });
    let idempotency = Idempotency::new(MemoryStore::new());
    let service = idempotency.layer(Policy::ttl("24h").unknown(Unknown::Hold)).layer(service);
    let send =
        || service.clone().oneshot(Request::post("/").header("idempotency-key", "k1").body(Body::empty()).unwrap());
    assert_eq!(send().await.unwrap_err(), "broken");
    assert_eq!(send().await.unwrap().status(), StatusCode::CONFLICT);
}

/// A stream passes as it comes and is kept whole.
#[tokio::test]
async fn a_streamed_answer_is_replayed_whole() {
    let test = start_with(
        |builder| builder,
        |app: App| {
            let stream = |State(ledger): State<Ledger>| async move {
                let run = ledger.number();
                let pieces = ["a", "b", "c"].map(|piece| Ok::<_, std::io::Error>(format!("{piece}{run}")));
                let pieces = futures::StreamExt::then(futures::stream::iter(pieces), |piece| async {
                    tokio::task::yield_now().await;
                    piece
                });
                Body::from_stream(pieces)
            };
            Router::new().route("/s", post(stream)).layer(app.idempotency.layer(Policy::ttl("24h"))).with_state(app)
        },
    )
    .await;
    assert_eq!(test.send("/s").await.text(), "a1b1c1");
    test.drained().await;
    let replay = test.send("/s").await;
    assert_eq!((replay.is_replay(), replay.text().as_str()), (true, "a1b1c1"));
    test.check(1, &["executed", "replayed"]);
}

/// The light layer refuses what has no usable key, and nothing else.
#[tokio::test]
async fn require_key_only_refuses() {
    let test = start_with(
        |builder| builder,
        |app: App| Router::new().route("/plain", any(plain)).layer(app.idempotency.require_key()).with_state(app),
    )
    .await;
    assert_eq!(Answer::to(test.server.keyless("/plain")).await.problem(), "idempotency_key_missing");
    assert_eq!(Answer::to(test.server.post("/plain", "")).await.problem(), "idempotency_key_invalid");
    assert_eq!(test.send("/plain").await.text(), "1");
    assert_eq!(test.send("/plain").await.text(), "2");
    assert_eq!(Answer::to(test.server.get("/plain")).await.text(), "3");
    assert_eq!(test.store.calls(Verb::Claim), 0);
    test.check(3, &["key_missing", "key_invalid"]);
    tokio::time::timeout(Duration::from_secs(20), test.idempotency.drain(Duration::ZERO)).await.unwrap();
}
