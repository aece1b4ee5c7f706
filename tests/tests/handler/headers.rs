//! What a replay carries, by §4.1 of the design: everything that belongs to the answer and nothing of the exchange.

use axum::{
    Extension, Router,
    http::{HeaderMap, HeaderValue},
    middleware::map_response,
    response::Response,
    routing::post,
};
use idem_runtime::{Idempotency, http::Replayed, idempotent, store::MemoryStore};
use idem_tests::server::{Answer, Server};

use crate::app::{start, start_with};

fn all(headers: &HeaderMap, name: &str) -> Vec<Vec<u8>> {
    headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect()
}

/// Without following the redirect.
async fn call(server: &Server) -> Answer {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    Answer::to(client.post(server.url("/decorated")).header("idempotency-key", "k1")).await
}

/// P2, P5, P11, K27: status, bytes and headers, repeated and Latin-1 ones included.
#[tokio::test]
async fn the_answer_is_replayed_whole() {
    let test = start().await;
    let (first, second) = (call(&test.server).await, call(&test.server).await);
    assert!(second.is_replay());
    assert_eq!((second.status, &second.body), (303, &first.body));
    for name in ["location", "etag", "link", "x-latin", "x-kept", "content-type", "content-length"] {
        assert!(!all(&first.headers, name).is_empty(), "{name} is in the first answer");
        assert_eq!(all(&second.headers, name), all(&first.headers, name), "{name}");
    }
    assert_eq!(all(&second.headers, "link").len(), 2);
    assert_eq!(all(&second.headers, "x-latin"), [b"caf\xe9"]);
}

/// P1, K26: the first answer is untouched; sessions, challenges and the exchange's own headers are not replayed.
#[tokio::test]
async fn what_belongs_to_the_first_exchange_is_not_replayed() {
    let test = start().await;
    let (first, second) = (call(&test.server).await, call(&test.server).await);
    assert_eq!(all(&first.headers, "set-cookie").len(), 2);
    for name in ["set-cookie", "www-authenticate", "x-hop", "x-request-id", "x-ratelimit-remaining"] {
        assert!(!second.headers.contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn cookies_are_replayed_if_asked_for() {
    let idempotency =
        Idempotency::builder(MemoryStore::new()).replay_also(["set-cookie"]).replay_header("X-Again").build();
    let test = start_with(idempotency, |router| router).await;
    call(&test.server).await;
    let second = call(&test.server).await;
    assert_eq!(all(&second.headers, "set-cookie"), [b"session=1".to_vec(), b"theme=2".to_vec()]);
    assert_eq!(second.headers["x-again"], "true");
    assert!(!second.is_replay());
}

/// The answer when the layer is forgotten names handler and fix.
#[tokio::test]
async fn a_missing_layer_is_a_500_that_says_so() {
    let test = start().await;
    let answer = Answer::to(test.server.post("/layered", "k1")).await;
    assert_eq!((answer.status, answer.problem().as_str()), (500, "idempotency_not_installed"));
    assert!(answer.text().contains("layered") && answer.text().contains("Extension(idempotency)"), "{}", answer.text());
    let layered = start_with(Idempotency::new(MemoryStore::new()), |router| {
        router.layer(Extension(Idempotency::new(MemoryStore::new())))
    })
    .await;
    for replay in [false, true] {
        assert_eq!(Answer::to(layered.server.post("/layered", "k1")).await.is_replay(), replay);
    }
}

#[tokio::test]
async fn problem_types_can_have_an_address() {
    let idempotency = Idempotency::builder(MemoryStore::new()).problem_base("https://example.com/problems/").build();
    let test = start_with(idempotency, |router| router).await;
    let answer = Answer::to(test.server.keyless("/orders").json(&1)).await;
    assert!(answer.text().contains("\"https://example.com/problems/idempotency_key_missing\""), "{}", answer.text());
}

#[derive(Clone)]
struct Receipt(&'static str);

#[idempotent(ttl = "1h")]
async fn receipted() -> (Extension<Receipt>, &'static str) {
    (Extension(Receipt("r-7")), "done")
}

/// K31: a layer outside finds the handler's extensions in a first answer, and a marker in a replay.
#[tokio::test]
async fn extensions_reach_a_layer_outside() {
    let seen = |mut response: Response| async move {
        let receipt = response.extensions().get::<Receipt>().map_or("none", |receipt| receipt.0);
        let replayed = if response.extensions().get::<Replayed>().is_some() { "replayed" } else { "first" };
        response.headers_mut().insert("x-receipt", HeaderValue::from_static(receipt));
        response.headers_mut().insert("x-layer-saw", HeaderValue::from_static(replayed));
        response
    };
    let router = Router::new().route("/", post(receipted)).layer(Extension(Idempotency::new(MemoryStore::new())));
    let server = Server::start(router.layer(map_response(seen))).await;
    for (receipt, saw) in [("r-7", "first"), ("none", "replayed")] {
        let answer = Answer::to(server.post("/", "k1")).await;
        assert!(answer.headers["x-receipt"] == receipt && answer.headers["x-layer-saw"] == saw, "{:?}", answer.headers);
        assert_eq!(answer.text(), "done");
    }
}
