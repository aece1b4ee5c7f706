//! Consumers that ask inside their own transaction whether they are the first.

use std::time::Duration;

use idem_runtime::{
    Idempotency,
    store::{MemoryStore, StoreError, postgres::Delivery},
};
use sqlx::PgConnection;

use crate::app::start;

const WEEK: Duration = Duration::from_hours(7 * 24);

async fn ask(idempotency: &Idempotency, connection: &mut PgConnection, id: &str) -> Result<Delivery, StoreError> {
    idempotency.once_in(connection, "payments.received", id, WEEK).await
}

async fn pay(connection: &mut PgConnection, key: &str) {
    sqlx::query("INSERT INTO payments (key, cents) VALUES ($1, 1)").bind(key).execute(connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_commits_with_its_effect() {
    let Some(test) = start(4).await else { return };
    let idempotency = &test.idempotency;
    let mut tx = test.pool.begin().await.unwrap();
    assert_eq!(ask(idempotency, &mut tx, "m1").await.unwrap(), Delivery::First);
    pay(&mut tx, "m1").await;
    // Itself again, another one meanwhile, and another message.
    assert_eq!(ask(idempotency, &mut tx, "m1").await.unwrap(), Delivery::Repeated);
    let mut other = test.pool.begin().await.unwrap();
    assert_eq!(ask(idempotency, &mut other, "m1").await.unwrap(), Delivery::Busy);
    assert_eq!(ask(idempotency, &mut other, "m2").await.unwrap(), Delivery::First);
    other.rollback().await.unwrap();
    tx.commit().await.unwrap();

    let mut later = test.pool.begin().await.unwrap();
    assert_eq!(ask(idempotency, &mut later, "m1").await.unwrap(), Delivery::Repeated);
    assert_eq!(
        ask(idempotency, &mut later, "m2").await.unwrap(),
        Delivery::First,
        "what was rolled back was never done"
    );
    later.rollback().await.unwrap();
    assert_eq!(test.payments("m1").await, 1);
}

/// Under every isolation level: a hundred deliveries of ten messages by ten consumers are ten payments.
#[tokio::test(flavor = "multi_thread")]
async fn redeliveries_pay_once() {
    let Some(test) = start(10).await else { return };
    for isolation in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let consumers = (0..10).map(|_| {
            let (idempotency, pool) = (test.idempotency.clone(), test.pool.clone());
            tokio::spawn(async move {
                for message in 0..10 {
                    let id = format!("{isolation} {message}");
                    loop {
                        let begin = sqlx::AssertSqlSafe(format!("BEGIN ISOLATION LEVEL {isolation}"));
                        let mut tx = pool.begin_with(begin).await.unwrap();
                        match ask(&idempotency, &mut tx, &id).await {
                            Ok(Delivery::First) => {
                                pay(&mut tx, &id).await;
                                if tx.commit().await.is_ok() {
                                    break;
                                }
                            }
                            Ok(Delivery::Repeated) => break,
                            // Redelivered.
                            Ok(Delivery::Busy) | Err(StoreError::Fault(_)) => tx.rollback().await.unwrap(),
                            Err(other) => panic!("{other}"),
                        }
                        tokio::task::yield_now().await;
                    }
                }
            })
        });
        for consumer in futures::future::join_all(consumers.collect::<Vec<_>>()).await {
            consumer.unwrap();
        }
        for message in 0..10 {
            assert_eq!(test.payments(&format!("{isolation} {message}")).await, 1);
        }
    }
}

/// An expired record is none, and one that [`Idempotency::once`] runs is in the way. A handler's never is.
#[tokio::test(flavor = "multi_thread")]
async fn the_records_are_those_of_once() {
    let Some(test) = start(4).await else { return };
    let mut connection = test.pool.acquire().await.unwrap();
    let once = test.idempotency.once_in(&mut connection, "op", "short", Duration::from_millis(1)).await.unwrap();
    assert_eq!(once, Delivery::First);
    idem_tests::postgres::eventually("the expiry", || async {
        let mut connection = test.pool.acquire().await.unwrap();
        test.idempotency.once_in(&mut connection, "op", "short", WEEK).await.unwrap() == Delivery::First
    })
    .await;
    assert!(test.idempotency.forget("once op", &Idempotency::NO_SCOPE, "short").await.unwrap());
    assert_eq!(test.idempotency.once_in(&mut connection, "op", "short", WEEK).await.unwrap(), Delivery::First);

    let (begun, begins) = tokio::sync::oneshot::channel();
    let (go, goes) = tokio::sync::oneshot::channel::<()>();
    let work = async move || {
        begun.send(()).unwrap();
        goes.await
    };
    let running = tokio::spawn(test.idempotency.once("op", "k").run(work));
    begins.await.unwrap();
    let mut ask = async || test.idempotency.once_in(&mut connection, "op", "k", WEEK).await.unwrap();
    assert_eq!(ask().await, Delivery::Busy);
    go.send(()).unwrap();
    running.await.unwrap().unwrap();
    assert_eq!(ask().await, Delivery::Repeated);

    assert_eq!(test.send("/pay", "k", r#"{"cents": 1}"#).await.status, 201);
    assert_eq!(test.idempotency.once_in(&mut connection, "POST /pay", "k", WEEK).await.unwrap(), Delivery::First);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_store_and_an_empty_key_are_errors() {
    let Some(test) = start(1).await else { return };
    let mut connection = test.pool.acquire().await.unwrap();
    assert!(ask(&Idempotency::new(MemoryStore::new()), &mut connection, "m").await.is_err());
    assert!(ask(&test.idempotency, &mut connection, "").await.is_err());
}
