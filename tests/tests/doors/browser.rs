//! What browsers do: ask before they send, and send twice.

use std::{
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::Request,
    http::Method,
    middleware::{self, Next},
    routing::post,
};
use idem_runtime::{
    Idempotency, Policy,
    http::{EXPOSED_HEADERS, REQUEST_HEADERS},
    store::{MemoryStore, Verb},
};
use idem_tests::{
    process::{Process, find, free_port},
    server::{Answer, Server},
};
use serde_json::{Value, json};
use tower_http::cors::CorsLayer;

use crate::{
    app::{App, soon, start_with},
    routes,
};

#[path = "../../../examples/form/shop.rs"]
mod shop;

const ORIGIN: &str = "https://shop.example";

/// The preflight passes without a key and claims nothing; a script may read what it needs, of a replay too.
#[tokio::test]
async fn a_preflight_passes_and_a_script_sees_the_headers() {
    let cors = CorsLayer::new()
        .allow_origin([ORIGIN.parse().unwrap()])
        .allow_methods([Method::POST])
        .allow_headers(REQUEST_HEADERS)
        .expose_headers(EXPOSED_HEADERS);
    let test = start_with(
        |builder| builder,
        |app: App| {
            let whole = app.idempotency.layer(Policy::ttl("24h"));
            let whole = Router::new().route("/whole", post(async || "whole")).layer(whole);
            routes::router(app).merge(whole).layer(cors)
        },
    )
    .await;
    for path in ["/pay", "/whole"] {
        let preflight = reqwest::Client::new()
            .request(Method::OPTIONS, test.server.url(path))
            .header("origin", ORIGIN)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type,idempotency-key");
        let preflight = Answer::to(preflight).await;
        assert_eq!(
            (preflight.status, &preflight.headers["access-control-allow-origin"]),
            (200, &ORIGIN.parse().unwrap())
        );
        let allowed = preflight.headers["access-control-allow-headers"].to_str().unwrap().to_owned();
        assert!(
            allowed.split(',').any(|name| name == "idempotency-key") && allowed.contains("content-type"),
            "{allowed}"
        );
        for replay in [false, true] {
            let answer = Answer::to(test.server.post(path, "k1").header("origin", ORIGIN)).await;
            let exposed = answer.headers["access-control-expose-headers"].to_str().unwrap().to_owned();
            assert_eq!(
                (answer.is_replay(), exposed.as_str()),
                (replay, "idempotent-replayed,idempotent-body,retry-after")
            );
            assert_eq!(answer.headers.get_all("access-control-allow-origin").iter().count(), 1);
        }
    }
    assert_eq!(test.store.calls(Verb::Claim), 4);
}

/// A headless Chromium, steered over `WebDriver`.
struct Browser {
    session: String,
    http: reqwest::Client,
    _driver: Process,
    _profile: tempfile::TempDir,
}

impl Browser {
    async fn start() -> Option<Self> {
        let (driver, chromium) = (find("chromedriver", &[])?, find("chromium", &[])?);
        let (port, profile) = (free_port(), tempfile::tempdir().unwrap());
        let driver = Process::start(
            Command::new(driver).arg(format!("--port={port}")).stdout(Stdio::null()).stderr(Stdio::null()),
        );
        let root = format!("http://127.0.0.1:{port}");
        let http = reqwest::Client::new();
        soon(async {
            while http.get(format!("{root}/status")).send().await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            &format!("--user-data-dir={}", profile.path().display()),
        ];
        let options = json!({ "binary": chromium, "args": arguments });
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let mut browser =
            Self { session: format!("{root}/session"), http, _driver: driver.unwrap(), _profile: profile };
        let begun = browser.ask("", Some(wanted)).await;
        browser.session = format!("{root}/session/{}", begun["sessionId"].as_str().unwrap());
        Some(browser)
    }

    /// One `WebDriver` command: a POST where there is something to say.
    async fn ask(&self, command: &str, body: Option<Value>) -> Value {
        let url = format!("{}{command}", self.session);
        let request = match body {
            Some(body) => self.http.post(url).json(&body),
            None => self.http.get(url),
        };
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert!(answer["value"]["error"].is_null(), "{command}: {answer}");
        answer["value"].clone()
    }

    /// Clicks twice on what `selector` finds, as fast as a person does.
    async fn double_click(&self, selector: &str) {
        let element = self.ask("/element", Some(json!({ "using": "css selector", "value": selector }))).await;
        let press = [json!({ "type": "pointerDown", "button": 0 }), json!({ "type": "pointerUp", "button": 0 })];
        let pause = json!({ "type": "pause", "duration": 80 });
        let place = json!({ "type": "pointerMove", "x": 0, "y": 0, "origin": element });
        let actions = [vec![place], press.to_vec(), vec![pause], press.to_vec()].concat();
        let mouse = json!({ "type": "pointer", "id": "mouse", "actions": actions });
        self.ask("/actions", Some(json!({ "actions": [mouse] }))).await;
    }

    async fn close(self) {
        let _ = self.http.delete(&self.session).send().await;
    }
}

/// A double-click sends the form twice and makes one order; so does sending it again after going back.
#[tokio::test]
async fn a_double_click_on_a_form_makes_one_order() {
    let Some(browser) = Browser::start().await else { return };
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let count = middleware::from_fn(move |request: Request, next: Next| {
        if request.method() == Method::POST {
            counted.fetch_add(1, SeqCst);
        }
        next.run(request)
    });
    let shop = shop::Shop::new(Idempotency::new(MemoryStore::new()));
    let server = Server::start(shop::router(shop).layer(count)).await;
    browser.ask("/url", Some(json!({ "url": server.url("/") }))).await;
    browser.double_click("#order").await;
    soon(async {
        while browser.ask("/title", None).await != "Order 1" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(sent.load(SeqCst), 2, "the browser sent it twice");
    let text = async || {
        let found = browser.ask("/element", Some(json!({ "using": "css selector", "value": "#orders" }))).await;
        let id = found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
        browser.ask(&format!("/element/{id}/text"), None).await
    };
    assert_eq!(text().await, "1 ordered");

    browser.ask("/back", Some(json!({}))).await;
    browser.double_click("#order").await;
    soon(async {
        while browser.ask("/title", None).await != "Order 1" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(sent.load(SeqCst) > 2);
    assert_eq!(text().await, "1 ordered");
    browser.close().await;
}
