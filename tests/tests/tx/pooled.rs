//! Through a pooler of transactions, which keeps a server's connection for as long as a transaction lasts.

use idem_tests::postgres::{Pooler, pool};

use crate::app::{database, refused, server, start_over};

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_pooler_works_with_the_simple_protocol() {
    let Some(server) = server() else { return };
    let name = database(&server).await;
    let Some(pooler) = Pooler::start(&server, 3) else { return };
    let pool = pool(&pooler.url_of(&name), 8).await;
    let test = start_over(server.clone(), name, pool, |store| store.simple_protocol(true)).await;
    let body = r#"{"cents": 5}"#;
    let answers = futures::future::join_all((0..200).map(|at| {
        let key = format!("k{}", at % 40);
        let request = test.request("/pay", &key, body).header("pooled", "1");
        async move { (key, idem_tests::server::Answer::to(request).await) }
    }))
    .await;
    for (key, answer) in &answers {
        assert!(matches!(answer.status, 201 | 409), "{key}: {} {}", answer.status, answer.text());
    }
    for at in 0..40 {
        let key = format!("k{at}");
        let retry = test.resend("/pay", &key, body).await;
        assert!(retry.is_replay(), "{}", retry.text());
        let id: i64 = retry.text().parse().unwrap();
        let named = format!("SELECT count(*) FROM payments WHERE id = {id} AND key = '{key}'");
        assert_eq!(idem_tests::postgres::number(&test.direct, named).await, 1);
        assert_eq!(test.payments(&key).await, 1);
    }
    refused(&test.send("/pay", "k1", r#"{"cents": 6}"#).await, 422, "idempotency_key_reused", None);
    test.settled().await;
}
