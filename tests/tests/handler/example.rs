//! The payments example, as the README calls it.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use idem_tests::{
    process::{Process, free_port},
    server::Answer,
};
use reqwest::Client;

/// The example on a free port, with the memory store.
async fn example(bank_ms: &str) -> (Process, Client, String) {
    for _ in 0..5 {
        let url = format!("http://127.0.0.1:{}", free_port());
        let mut command = Command::new(env!("CARGO_BIN_EXE_payments"));
        command.env_clear().env("PORT", url.rsplit_once(':').unwrap().1).env("RUST_LOG", "off").env("BANK_MS", bank_ms);
        let mut process = Process::start(command.stdin(Stdio::null())).unwrap();
        let client = Client::new();
        let deadline = Instant::now() + Duration::from_secs(20);
        while matches!(process.child().try_wait(), Ok(None)) && Instant::now() < deadline {
            if client.get(format!("{url}/payments")).send().await.is_ok() {
                return (process, client, url);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    panic!("the example does not start");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_payments_example_answers_as_the_readme_says() {
    let (_process, client, url) = example("1").await;
    let charge = |key: Option<&str>, amount: u32| {
        let request = client.post(format!("{url}/v1/charges"));
        let request = key.into_iter().fold(request, |request, key| request.header("idempotency-key", key));
        Answer::to(request.form(&[("amount", amount.to_string()), ("currency", "eur".into())]))
    };
    let key = Some("a8f3b2c1-4d5e-6f7a-8b9c-0d1e2f3a4b5c");
    let first = charge(key, 2000).await;
    assert_eq!((first.status, &*first.text()), (200, r#"{"id":"ch_1","amount":2000,"currency":"eur"}"#));
    assert!(!first.is_replay());
    let second = charge(key, 2000).await;
    assert!(second.is_replay() && (second.status, &second.body) == (200, &first.body));
    let other = charge(key, 2001).await;
    assert_eq!((other.status, &*other.problem()), (422, "idempotency_key_reused"));
    let keyless = charge(None, 2000).await;
    assert_eq!((keyless.status, &*keyless.problem()), (400, "idempotency_key_missing"));
    let charged = Answer::to(client.get(format!("{url}/payments"))).await;
    assert_eq!(charged.text(), format!("[{}]", first.text()));

    let metrics = Answer::to(client.get(format!("{url}/metrics"))).await.text();
    for outcome in ["executed", "replayed", "mismatch", "key_missing"] {
        let line = format!("idem_requests_total{{outcome=\"{outcome}\",operation=\"POST /v1/charges\"}} 1");
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}

/// What a service manager sends stops the listening, and no payment.
#[tokio::test(flavor = "multi_thread")]
async fn the_payments_example_ends_what_it_began_when_it_is_terminated() {
    let (mut process, client, url) = example("2000").await;
    let charge = client.post(format!("{url}/v1/charges")).header("idempotency-key", "k1");
    let charging = tokio::spawn(Answer::to(charge.form(&[("amount", "300"), ("currency", "eur")])));
    while !Answer::to(client.get(format!("{url}/payments"))).await.text().contains("ch_1") {
        tokio::task::yield_now().await;
    }
    let stopped = tokio::task::spawn_blocking(move || process.stop());
    assert_eq!(charging.await.unwrap().status, 200);
    stopped.await.unwrap();
}
