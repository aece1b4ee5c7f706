//! How often a run asks the server, counted by the server.

use std::sync::Arc;

use idem_tests::postgres::{Postgres, execute, pool};

use crate::app::{database, start_over};

/// What the server was asked since `from`, in its log's words.
fn asked(server: &Postgres, database: &str, from: usize) -> Vec<String> {
    let log = server.log();
    let mark = format!("<{database}> ");
    let lines = log.lines().skip(from).filter_map(|line| line.split_once(&mark).map(|(_, said)| said.to_owned()));
    lines.filter(|said| said.contains("statement: ") || said.contains("execute ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_takes_four_round_trips_more_than_its_handler() {
    let Some(server) = Postgres::start() else { return };
    let server = Arc::new(server);
    let admin = pool(&server.url(), 1).await;
    execute(&admin, "ALTER SYSTEM SET log_statement = 'all'").await;
    execute(&admin, "ALTER SYSTEM SET log_line_prefix = '<%d> '").await;
    execute(&admin, "SELECT pg_reload_conf()").await;
    let name = database(&server).await;
    let one = pool(&server.url_of(&name), 1).await;
    let test = start_over(Arc::clone(&server), name.clone(), one, |store| store).await;
    let body = r#"{"cents": 5}"#;
    assert_eq!(test.send("/pay", "warm", body).await.status, 201);
    // A listener has proved itself by then, and says no more.
    test.settled().await;
    idem_tests::postgres::eventually("a quiet listener", || async {
        asked(&server, &name, 0).iter().any(|said| said.contains("pg_notify"))
    })
    .await;

    let from = server.log().lines().count();
    assert_eq!(test.send("/pay", "k", body).await.status, 201);
    let said = asked(&server, &name, from);
    let order = ["BEGIN; SET LOCAL idle_in_transaction", "tx_claim", "INSERT INTO payments", "tx_complete", "COMMIT"];
    assert_eq!(said.len(), order.len(), "{said:#?}");
    assert!(said.iter().zip(order).all(|(said, wanted)| said.contains(wanted)), "{said:#?}");
    assert!(said[0].contains("= 30000"), "the lease: {}", said[0]);

    // A replay begins, reads and ends.
    let from = server.log().lines().count();
    assert!(test.send("/pay", "k", body).await.is_replay());
    let said = asked(&server, &name, from);
    let order = ["BEGIN", "tx_claim", "ROLLBACK"];
    assert_eq!(said.len(), order.len(), "{said:#?}");
    assert!(said.iter().zip(order).all(|(said, wanted)| said.contains(wanted)), "{said:#?}");
}
