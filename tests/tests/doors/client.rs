//! The example's client against a service that is killed, for real.

use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use idem_tests::{
    process::{Process, free_port},
    proxy::Proxy,
};
use serde_json::json;
use tempfile::TempDir;

use self::retry::{Client, Undecided};
use crate::app::soon;

#[path = "../../../examples/client/retry.rs"]
mod retry;

/// A service that can be killed, with its store's file and its ledger.
struct World {
    folder: TempDir,
    port: u16,
    work: &'static str,
}

impl World {
    fn new(work: &'static str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), port: free_port(), work }
    }

    async fn start(&self) -> Process {
        let process = Process::start(
            Command::new(env!("CARGO_BIN_EXE_service"))
                .env("PORT", self.port.to_string())
                .env("WORK_MS", self.work)
                .env("LEDGER", self.folder.path().join("ledger"))
                .env("IDEM_STORE", format!("sqlite:{}", self.folder.path().join("idem.db").display()))
                .stdout(Stdio::null()),
        );
        soon(async {
            while reqwest::get(format!("http://127.0.0.1:{}/ready", self.port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        process.unwrap()
    }

    fn charges(&self) -> usize {
        let ledger = fs::read_to_string(self.folder.path().join("ledger")).unwrap_or_default();
        ledger.lines().filter(|line| !line.ends_with(" ended")).count()
    }

    async fn charged(&self) {
        soon(async {
            while self.charges() == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

fn client() -> Client {
    Client { patience: Duration::from_secs(40), pause: Duration::from_millis(50), ..Client::default() }
}

/// The answer is lost on its way, and the server is killed before the next attempt: the next server replays it.
#[tokio::test]
async fn a_payment_survives_a_server_killed_between_attempts() {
    let world = World::new("0");
    let mut server = world.start().await;
    let proxy = Proxy::start(([127, 0, 0, 1], world.port).into()).await.unwrap();
    proxy.drop_replies(1);
    let url = format!("http://{}/pay", proxy.address());
    let paying = tokio::spawn(async move { client().post(&url, "k1", &json!({ "name": "ann" })).await });
    soon(async {
        while proxy.replies_to_drop() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    server.kill();
    let _server = world.start().await;
    let answer = paying.await.unwrap().unwrap();
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.headers()["idempotent-replayed"], "true");
    assert_eq!(world.charges(), 1);
}

/// Killed while it pays, and nobody knows: the client hears 409 while the lease lasts, and then that someone must decide.
#[tokio::test]
async fn a_payment_that_nobody_knows_of_is_not_repeated() {
    let world = World::new("60000");
    let mut server = world.start().await;
    let url = format!("http://127.0.0.1:{}/hold", world.port);
    let paying = tokio::spawn(async move { client().post(&url, "k1", &json!({ "name": "ann" })).await });
    world.charged().await;
    server.kill();
    let _server = world.start().await;
    let outcome = paying.await.unwrap();
    assert!(matches!(outcome, Err(Undecided::Unknown)), "{outcome:?}");
    assert_eq!(world.charges(), 1);
}

/// Another body under the key is a bug, and told at once; a server that stays away costs no more than the patience.
#[tokio::test]
async fn what_retrying_cannot_mend_ends() {
    let world = World::new("0");
    let mut server = world.start().await;
    let url = format!("http://127.0.0.1:{}/pay", world.port);
    assert_eq!(client().post(&url, "k1", &json!({ "name": "ann" })).await.unwrap().status(), 201);
    let reused = client().post(&url, "k1", &json!({ "name": "bob" })).await;
    assert!(matches!(reused, Err(Undecided::KeyReused)), "{reused:?}");
    let mended = client().post(&url, "k2", &json!({ "nobody": 1 })).await.unwrap();
    assert_eq!(mended.status(), 422, "the service's own answer is an outcome");
    assert!(mended.text().await.unwrap().contains("name"));
    server.kill();
    let brief = Client { patience: Duration::from_millis(300), ..client() };
    let gave_up = brief.post(&url, "k3", &json!({ "name": "ann" })).await;
    assert!(matches!(gave_up, Err(Undecided::GaveUp(_))), "{gave_up:?}");
    assert_eq!(world.charges(), 1);
}
