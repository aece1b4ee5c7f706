//! Deliveries of webhooks: who is let in, what runs once, and what burns no id.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, FromRef, State},
    http::StatusCode,
    routing::post,
};
use futures::future::join_all;
use hmac::{Hmac, KeyInit as _, Mac as _};
use idem_runtime::{
    Idempotency, idempotent,
    store::{Fault, FaultStore, MemoryStore, Verb},
    webhooks::{GitHub, Slack, Stripe, Webhook, WebhookRejection, WebhookSecrets},
};
use idem_tests::{
    process,
    server::{Answer, Server},
};
use reqwest::RequestBuilder;
use serde::Deserialize;
use sha2::Sha256;

use crate::app::Ledger;

/// The example's own routes, sent to by its own script.
#[path = "../../../examples/webhooks/app.rs"]
mod example;

#[derive(Clone, FromRef)]
struct App {
    ledger: Ledger,
    idempotency: Idempotency,
    stripe: WebhookSecrets<Stripe>,
    github: WebhookSecrets<GitHub>,
    slack: WebhookSecrets<Slack>,
}

#[derive(Deserialize)]
struct Charge {
    amount: u64,
}

#[idempotent(ttl = "90h", key = event.id(), fingerprint = none, retry_window = stripe)]
async fn stripe(State(ledger): State<Ledger>, event: Webhook<Stripe, Charge>) -> (StatusCode, String) {
    ledger.answer(&format!("{} {}", event.id(), event.payload().amount))
}

#[idempotent(ttl = "90h", key = event.id(), fingerprint = none, retry_window = stripe, lease = "10s", state = App)]
async fn gated(State(ledger): State<Ledger>, event: Webhook<Stripe>) -> (StatusCode, String) {
    ledger.run();
    ledger.passed().await;
    (StatusCode::OK, event.id().to_owned())
}

#[idempotent(ttl = "90h", key = event.id(), fingerprint = none, retry_window = github)]
async fn github(State(ledger): State<Ledger>, event: Webhook<GitHub>) -> (StatusCode, String) {
    ledger.answer(event.id())
}

#[idempotent(ttl = "30h", key = event.id(), fingerprint = none, retry_window = slack)]
async fn slack(State(ledger): State<Ledger>, event: Webhook<Slack>) -> (StatusCode, String) {
    ledger.answer(event.id())
}

/// An application may look at what is refused.
async fn lenient(event: Result<Webhook<Stripe>, WebhookRejection>) -> String {
    event.map_or_else(|refused| refused.status().to_string(), |event| event.id().to_owned())
}

struct Test {
    server: Server,
    ledger: Ledger,
    idempotency: Idempotency,
    store: FaultStore<MemoryStore>,
}

const SECRET: &str = "whsec_new";

async fn start() -> Test {
    let store = FaultStore::new(MemoryStore::new());
    let (ledger, idempotency) = (Ledger::default(), Idempotency::new(store.clone()));
    let app = App {
        ledger: ledger.clone(),
        idempotency: idempotency.clone(),
        stripe: WebhookSecrets::new([SECRET, "whsec_old"]).unwrap(),
        github: WebhookSecrets::new([SECRET]).unwrap(),
        slack: WebhookSecrets::new([SECRET]).unwrap(),
    };
    let router = Router::new()
        .route("/stripe", post(stripe))
        .route("/gated", post(gated))
        .route("/github", post(github))
        .route("/slack", post(slack))
        .route("/lenient", post(lenient))
        .layer(DefaultBodyLimit::max(1000))
        .with_state(app);
    Test { server: Server::start(router).await, ledger, idempotency, store }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn hex(secret: &str, before: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(before.as_bytes());
    mac.update(body);
    mac.finalize().into_bytes().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn charge(id: &str) -> String {
    format!(r#"{{"id":"{id}","amount":5}}"#)
}

fn stripe_header(secret: &str, at: u64, body: &[u8]) -> String {
    format!("t={at},v1={}", hex(secret, &format!("{at}."), body))
}

impl Test {
    fn stripe(&self, path: &str, secret: &str, at: u64, body: impl AsRef<[u8]>) -> RequestBuilder {
        let body = body.as_ref().to_vec();
        self.server.keyless(path).header("stripe-signature", stripe_header(secret, at, &body)).body(body)
    }

    fn slack(&self, secret: &str, body: &str) -> RequestBuilder {
        let at = now();
        let signature = format!("v0={}", hex(secret, &format!("v0:{at}:"), body.as_bytes()));
        let request = self.server.keyless("/slack").header("x-slack-signature", signature);
        request.header("x-slack-request-timestamp", at).body(body.to_owned())
    }
}

#[tokio::test]
async fn an_event_runs_once_however_often_it_is_delivered() {
    let test = start().await;
    let first = Answer::to(test.stripe("/stripe", SECRET, now(), charge("evt_1"))).await;
    assert_eq!((first.status, first.text().as_str(), first.is_replay()), (200, "run 1: evt_1 5", false));
    // A retry is signed anew, here with the secret that is on its way out.
    let again = Answer::to(test.stripe("/stripe", "whsec_old", now() - 1, charge("evt_1"))).await;
    assert_eq!((again.status, again.text().as_str(), again.is_replay()), (200, "run 1: evt_1 5", true));
    assert_eq!(Answer::to(test.stripe("/stripe", SECRET, now(), charge("evt_2"))).await.text(), "run 2: evt_2 5");
    assert_eq!(Answer::to(test.slack(SECRET, r#"{"event_id":"Ev1"}"#)).await.text(), "run 3: Ev1");
    assert!(Answer::to(test.slack(SECRET, r#"{"event_id":"Ev1"}"#)).await.is_replay());
    let github = |id: &'static str| {
        let signature = format!("sha256={}", hex(SECRET, "", b"{}"));
        test.server
            .keyless("/github")
            .header("x-hub-signature-256", signature)
            .header("x-github-delivery", id)
            .body("{}")
    };
    assert_eq!(Answer::to(github("g1")).await.text(), "run 4: g1");
    assert!(Answer::to(github("g1")).await.is_replay());
    assert_eq!(Answer::to(github("g2")).await.text(), "run 5: g2");
}

/// What isn't let in changes nothing: the true delivery of the same id still runs.
#[tokio::test]
async fn a_refused_delivery_burns_no_id() {
    let test = start().await;
    let body = charge("evt_1");
    let twice = stripe_header(SECRET, now(), body.as_bytes());
    let refused = [
        (test.server.keyless("/stripe").body(body.clone()), 401, "webhook_signature_missing"),
        (test.stripe("/stripe", "whsec_stolen", now(), &body), 401, "webhook_signature_invalid"),
        (test.stripe("/stripe", SECRET, now(), &body).body(charge("evt_1 ")), 401, "webhook_signature_invalid"),
        (
            test.stripe("/stripe", SECRET, now(), &body).header("stripe-signature", twice),
            401,
            "webhook_signature_invalid",
        ),
        (test.stripe("/stripe", SECRET, now() - 3600, &body), 400, "webhook_stale"),
        (test.stripe("/stripe", SECRET, now() + 3600, &body), 400, "webhook_stale"),
        (test.stripe("/stripe", SECRET, now(), r#"{"amount":5}"#), 400, "webhook_id_missing"),
        (test.stripe("/stripe", SECRET, now(), r#"{"id":"evt_1","amount":"5"}"#), 400, "webhook_payload_invalid"),
        (test.stripe("/stripe", SECRET, now(), b"{\"id\":\"evt_1\xff\"}"), 400, "webhook_payload_invalid"),
    ];
    for (request, status, code) in refused {
        let answer = Answer::to(request).await;
        assert_eq!((answer.status, answer.problem().as_str()), (status, code));
        assert_eq!(answer.headers.contains_key("www-authenticate"), status == 401);
        assert!(!answer.text().contains("evt_1"), "{}", answer.text());
    }
    let large = format!(r#"{{"id":"evt_1","amount":5,"more":"{}"}}"#, "x".repeat(1000));
    assert_eq!(Answer::to(test.stripe("/stripe", SECRET, now(), large)).await.status, 413, "the router's limit");
    assert_eq!((test.ledger.runs(), test.store.calls(Verb::Claim)), (0, 0), "nothing ran and nothing was claimed");
    let true_one = Answer::to(test.stripe("/stripe", SECRET, now(), body)).await;
    assert_eq!((true_one.status, true_one.is_replay(), test.ledger.runs()), (200, false, 1));
}

/// A forged repetition gets no answer that was meant for the sender.
#[tokio::test]
async fn a_forged_repetition_of_a_completed_event_is_refused() {
    let test = start().await;
    assert_eq!(Answer::to(test.stripe("/stripe", SECRET, now(), charge("evt_1"))).await.status, 200);
    let forged = Answer::to(test.stripe("/stripe", "whsec_stolen", now(), charge("evt_1"))).await;
    assert_eq!((forged.status, forged.is_replay()), (401, false));
}

#[tokio::test]
async fn a_failed_handler_frees_the_id_for_the_senders_retry() {
    let test = start().await;
    test.ledger.answer_with(&[500, 503, 200]);
    for (status, run) in [(500, 1), (503, 2), (200, 3), (200, 3)] {
        let answer = Answer::to(test.stripe("/stripe", SECRET, now(), charge("evt_1"))).await;
        assert_eq!((answer.status, answer.text()), (status, format!("run {run}: evt_1 5")));
    }
}

#[tokio::test]
async fn a_delivery_beside_a_running_one_is_told_when_to_come_again() {
    let test = start().await;
    let first = tokio::spawn(test.stripe("/gated", SECRET, now(), charge("evt_1")).send());
    test.ledger.started().await;
    let beside = Answer::to(test.stripe("/gated", SECRET, now(), charge("evt_1"))).await;
    assert_eq!((beside.status, beside.problem().as_str()), (409, "idempotency_in_progress"));
    assert!(beside.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    test.ledger.open();
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
    assert!(Answer::to(test.stripe("/gated", SECRET, now(), charge("evt_1"))).await.is_replay());
}

#[tokio::test]
async fn of_many_deliveries_at_once_one_runs() {
    let test = start().await;
    let deliveries = (0..32).map(|_| Answer::to(test.stripe("/stripe", SECRET, now(), charge("evt_1"))));
    for answer in join_all(deliveries).await {
        assert!(matches!(answer.status, 200 | 409), "{}", answer.text());
    }
    assert_eq!(test.ledger.runs(), 1);
}

#[tokio::test]
async fn a_sender_that_hangs_up_finds_the_outcome_when_it_retries() {
    let test = start().await;
    let body = charge("evt_1");
    let head = format!(
        "content-length: {}\r\nstripe-signature: {}",
        body.len(),
        stripe_header(SECRET, now(), body.as_bytes())
    );
    let stream = test.server.send_raw(format!("POST /gated HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n{body}")).await;
    test.ledger.started().await;
    drop(stream);
    test.ledger.open();
    assert_eq!(test.idempotency.drain(Duration::from_secs(5)).await, 0);
    assert!(Answer::to(test.stripe("/gated", SECRET, now(), body)).await.is_replay());
    assert_eq!(test.ledger.runs(), 1);
}

#[tokio::test]
async fn a_store_that_is_down_makes_the_sender_come_again() {
    let test = start().await;
    test.store.every(Verb::Claim, Fault::Fail);
    let refused = Answer::to(test.stripe("/stripe", SECRET, now(), charge("evt_1"))).await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "idempotency_store_unavailable"));
    test.store.heal();
    assert_eq!(Answer::to(test.stripe("/stripe", SECRET, now(), charge("evt_1"))).await.text(), "run 1: evt_1 5");
}

#[tokio::test]
async fn slacks_handshake_is_answered_and_claims_nothing() {
    let test = start().await;
    let handshake = r#"{"type":"url_verification","token":"t","challenge":"3eZbrw1aB"}"#;
    for _ in 0..2 {
        let answer = Answer::to(test.slack(SECRET, handshake)).await;
        assert_eq!((answer.status, answer.text().as_str(), answer.is_replay()), (200, "3eZbrw1aB", false));
        assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    }
    assert_eq!(Answer::to(test.slack("stolen", handshake)).await.status, 401, "only Slack may ask");
    assert_eq!((test.ledger.runs(), test.store.calls(Verb::Claim)), (0, 0));
}

#[tokio::test]
async fn a_handler_may_look_at_what_is_refused() {
    let test = start().await;
    assert_eq!(Answer::to(test.stripe("/lenient", SECRET, now(), charge("evt_1"))).await.text(), "evt_1");
    assert_eq!(Answer::to(test.stripe("/lenient", "stolen", now(), charge("evt_1"))).await.text(), "401 Unauthorized");
}

/// The secrets come from a state behind an `Arc`, or from a layer.
#[tokio::test]
async fn secrets_come_from_an_arc_or_a_layer_too() {
    #[derive(Clone, FromRef)]
    struct Held {
        stripe: WebhookSecrets<Stripe>,
    }
    async fn id(event: Webhook<Stripe>) -> String {
        event.id().to_owned()
    }
    #[idempotent(ttl = "90h", key = event.id(), store = layer)]
    async fn guarded(event: Webhook<Stripe>) -> String {
        event.id().to_owned()
    }
    let stripe = WebhookSecrets::<Stripe>::new([SECRET]).unwrap();
    let layered = Router::new().route("/id", post(id)).route("/guarded", post(guarded));
    let routers = [
        (layered.clone().layer(Extension(stripe.clone())).layer(Extension(Idempotency::new(MemoryStore::new()))), 200),
        (layered, 500),
        (Router::new().route("/id", post(id)).with_state(Arc::new(Held { stripe })), 200),
    ];
    for (router, status) in routers {
        let test = Test { server: Server::start(router).await, ..start().await };
        let answer = Answer::to(test.stripe("/id", SECRET, now(), charge("evt_1"))).await;
        assert_eq!(answer.status, status);
        if status == 500 {
            assert_eq!(answer.problem(), "webhook_secrets_not_installed");
        } else {
            assert_eq!(answer.text(), "evt_1");
            let guarded = Answer::to(test.stripe("/guarded", SECRET, now(), charge("evt_1"))).await;
            assert!(matches!(guarded.status, 200 | 404), "{}", guarded.text());
        }
    }
}

/// Python's `hmac` signs for every sender; the script itself checks the answers.
#[tokio::test]
async fn the_examples_script_finds_every_route_right() {
    let Some(python) = process::find("python3", &[]) else { return };
    let server = Server::start(example::router(&|_| None).unwrap()).await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/webhooks/send.py");
    let run = tokio::process::Command::new(python).args([script, &server.url("")]).output().await.unwrap();
    assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    let handled: Vec<String> = server.get("/handled").send().await.unwrap().json().await.unwrap();
    let senders: Vec<_> = handled.iter().filter_map(|event| event.split(' ').next()).collect();
    assert_eq!(senders, ["stripe", "github", "shopify", "slack", "standard", "standard", "square"]);
}
