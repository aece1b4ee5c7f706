//! Processes that are killed in the middle of a run.

use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use idem_tests::{postgres::pool, process::Process};

use crate::app::start;

/// This program again, as a service that takes one request and holds it up.
fn child(url: &str) -> (Process, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "killed::as_a_child", "--nocapture"]).env("IDEM_TEST_CHILD", url);
    let mut process = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let lines = BufReader::new(process.child().stdout.take().unwrap());
    (process, lines)
}

/// The server sees the connection close and undoes the rest: no lease has to lapse.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_frees_its_key_at_once() {
    let Some(test) = start(4).await else { return };
    let url = format!("{}/{}", crate::app::server().unwrap().url().trim_end_matches("/postgres"), test.database);
    let (mut process, lines) = child(&url);
    let held = tokio::task::spawn_blocking(move || {
        lines.lines().map(Result::unwrap).any(|line| line.ends_with("child: held up after its write"))
    });
    assert!(held.await.unwrap());
    // The lease is a minute; a duplicate meets the running one.
    let duplicate = test.send("/slow", "k", r#"{"cents": 5}"#).await;
    assert_eq!((duplicate.status, test.held.runs()), (409, 0));
    process.kill();
    test.held.open(1);
    let started = std::time::Instant::now();
    let retry = test.resend("/slow", "k", r#"{"cents": 5}"#).await;
    assert_eq!((retry.status, retry.is_replay(), test.payments("k").await), (201, false, 1));
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "it took {:?}", started.elapsed());
    test.settled().await;
}

/// What the other process does; nothing in this one.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let Ok(url) = env::var("IDEM_TEST_CHILD") else { return };
    // The parent has the server; here it is only dialled.
    let pool = pool(&url, 2).await;
    let idempotency = idem_runtime::Idempotency::new(idem_runtime::store::PostgresStore::new(pool.clone()));
    let held = crate::app::Held::default();
    let app = crate::app::App { idempotency, pool, held: held.clone() };
    let service = idem_tests::server::Server::start(crate::app::router(app)).await;
    let request = service.post("/slow", "k").header("content-type", "application/json").body(r#"{"cents": 5}"#);
    let _running = tokio::spawn(request.send());
    held.begun(1).await;
    println!("\nchild: held up after its write");
    // Ends when the parent does: its end of the pipe closes.
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await.unwrap().unwrap();
}
