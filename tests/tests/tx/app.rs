//! A payments table, and handlers that write in it.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Extension, Json, Router,
    extract::{FromRef, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{any, post},
};
use idem_runtime::{
    Idempotency, Settle, idempotent,
    store::{PostgresStore, postgres::Tx},
};
use idem_tests::{
    postgres::{Postgres, eventually, execute, number, pool},
    server::{Answer, Server},
};
use serde::Deserialize;
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::sync::{Notify, Semaphore};

/// The server that the tests share while any of them runs; `None` where PostgreSQL isn't installed.
pub(crate) fn server() -> Option<Arc<Postgres>> {
    static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = shared.upgrade() {
        return Some(server);
    }
    let server = Arc::new(Postgres::start()?);
    *shared = Arc::downgrade(&server);
    Some(server)
}

/// A new database with both tables in it.
pub(crate) async fn database(server: &Postgres) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let name = format!("tx_{}", NEXT.fetch_add(1, SeqCst));
    execute(&pool(&server.url(), 1).await, format!("CREATE DATABASE {name}")).await;
    let admin = pool(&server.url_of(&name), 1).await;
    PostgresStore::new(admin.clone()).migrate().await.unwrap();
    execute(&admin, PAYMENTS).await;
    name
}

pub(crate) const PAYMENTS: &str = "
    CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL, cents bigint NOT NULL);
    CREATE TABLE names (name text CONSTRAINT late UNIQUE DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE doctors (name text PRIMARY KEY, on_call boolean NOT NULL);
    INSERT INTO doctors VALUES ('a', true), ('b', true);";

#[derive(Clone, FromRef)]
pub(crate) struct App {
    pub(crate) idempotency: Idempotency,
    pub(crate) pool: PgPool,
    pub(crate) held: Held,
}

/// Holds handlers up, and counts them.
#[derive(Clone)]
pub(crate) struct Held(Arc<(AtomicUsize, Notify, Semaphore)>);

impl Default for Held {
    fn default() -> Self {
        Self(Arc::new((AtomicUsize::new(0), Notify::new(), Semaphore::new(0))))
    }
}

impl Held {
    pub(crate) fn begin(&self) {
        self.0.0.fetch_add(1, SeqCst);
        self.0.1.notify_waiters();
    }
    pub(crate) fn runs(&self) -> usize {
        self.0.0.load(SeqCst)
    }
    /// Waits until so many handlers have begun.
    pub(crate) async fn begun(&self, runs: usize) {
        soon(async {
            loop {
                let changed = self.0.1.notified();
                if self.runs() >= runs {
                    return;
                }
                changed.await;
            }
        })
        .await;
    }
    /// Lets so many held-up handlers go on.
    pub(crate) fn open(&self, handlers: usize) {
        self.0.2.add_permits(handlers);
    }
    pub(crate) async fn gate(&self) {
        soon(self.0.2.acquire()).await.unwrap().forget();
    }
}

/// Waits for what is sure to come; what doesn't fails the test instead of holding it up.
pub(crate) async fn soon<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), event).await.expect("an event that never came")
}

#[derive(Deserialize)]
pub(crate) struct Order {
    pub(crate) cents: i64,
    #[serde(default = "created")]
    pub(crate) answer: u16,
    #[serde(default)]
    pub(crate) act: String,
}

const fn created() -> u16 {
    201
}

/// What most applications have: any database error is a 500.
pub(crate) struct Failed;

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        Self
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, "the application's own 500").into_response()
    }
}

/// The insert of a payment, as an application writes it: it knows nothing of idempotency.
pub(crate) async fn insert(connection: &mut PgConnection, headers: &HeaderMap, cents: i64) -> Result<i64, sqlx::Error> {
    let key = headers.get("idempotency-key").map_or("", |key| key.to_str().unwrap());
    sqlx::query_scalar("INSERT INTO payments (key, cents) VALUES ($1, $2) RETURNING id")
        .bind(key)
        .bind(cents)
        // Through a pooler of transactions no prepared statement may be kept.
        .persistent(!headers.contains_key("pooled"))
        .fetch_one(connection)
        .await
}

pub(crate) type Paid = Result<Response, Failed>;

pub(crate) fn paid(status: u16, id: i64) -> Response {
    (StatusCode::from_u16(status).unwrap(), Json(id)).into_response()
}

#[idempotent(ttl = "24h")]
async fn pay(mut tx: Tx, headers: HeaderMap, State(held): State<Held>, Json(order): Json<Order>) -> Paid {
    held.begin();
    let id = insert(&mut tx, &headers, order.cents).await?;
    let answer = paid(order.answer, id);
    Ok(match order.act.as_str() {
        "keep" => (Extension(Settle::Keep), answer).into_response(),
        "release" => (Extension(Settle::Release), answer).into_response(),
        "hold" => (Extension(Settle::Hold), answer).into_response(),
        "panic" => panic!("the handler panics after its write"),
        "swallow" => {
            let _ = sqlx::query("SELECT 1/0").execute(&mut *tx).await;
            answer
        }
        "fail" => {
            sqlx::query("SELECT 1/0").execute(&mut *tx).await?;
            answer
        }
        "savepoint" => {
            let mut savepoint = tx.begin().await?;
            let failed = sqlx::query("INSERT INTO payments (key, cents) VALUES (NULL, 1)").execute(&mut *savepoint);
            assert!(failed.await.is_err());
            savepoint.rollback().await?;
            let mut savepoint = tx.begin().await?;
            insert(&mut savepoint, &headers, 1000 + order.cents).await?;
            savepoint.commit().await?;
            answer
        }
        "commit" => {
            sqlx::raw_sql("COMMIT").execute(&mut *tx).await?;
            answer
        }
        "rollback" => {
            sqlx::raw_sql("ROLLBACK").execute(&mut *tx).await?;
            insert(&mut tx, &headers, 2000).await?;
            answer
        }
        // Each of these makes sqlx roll all of it back, and what follows would commit by itself.
        "stumble" => {
            let _ = sqlx::query("SELECT 1/0").execute(&mut *tx).await;
            for _ in 0..3 {
                let Ok(mut savepoint) = tx.begin().await else { continue };
                insert(&mut savepoint, &headers, 3000).await?;
                savepoint.commit().await?;
                break;
            }
            answer
        }
        "cancel" => {
            assert!(futures::FutureExt::now_or_never(tx.begin()).is_none());
            insert(&mut tx, &headers, 4000).await?;
            answer
        }
        "behind" => {
            let connection: &mut PgConnection = &mut tx;
            let _ = sqlx::query("SELECT 1/0").execute(&mut *connection).await;
            assert!(connection.begin().await.is_err());
            insert(connection, &headers, 5000).await?;
            answer
        }
        "elsewhere" => {
            sqlx::raw_sql("SET LOCAL search_path = nowhere").execute(&mut *tx).await?;
            answer
        }
        "forget" => {
            std::mem::forget(tx.begin().await?);
            answer
        }
        "kept" => {
            tokio::spawn(async move {
                held.gate().await;
                drop(tx);
            });
            answer
        }
        "deferred" => {
            sqlx::query("INSERT INTO names VALUES ('x'), ('x')").execute(&mut *tx).await?;
            answer
        }
        "sleep" => {
            sqlx::query("SELECT pg_sleep(60)").execute(&mut *tx).await?;
            answer
        }
        _ => answer,
    })
}

/// The same, held up between its write and its end.
#[idempotent(ttl = "24h", lease = "60s")]
async fn slow(mut tx: Tx, headers: HeaderMap, State(held): State<Held>, Json(order): Json<Order>) -> Paid {
    let id = insert(&mut tx, &headers, order.cents).await?;
    held.begin();
    held.gate().await;
    Ok(paid(order.answer, id))
}

#[idempotent(ttl = "24h", lease = "60s", wait = "20s")]
async fn awaited(headers: HeaderMap, State(held): State<Held>, mut tx: Tx) -> Paid {
    let id = insert(&mut tx, &headers, 1).await?;
    held.begin();
    held.gate().await;
    Ok(paid(201, id))
}

/// Not held up by anything, and it takes its transaction last.
#[idempotent(ttl = "24h", lease = "1s", optional)]
async fn last(headers: HeaderMap, State(held): State<Held>, mut tx: Tx) -> Paid {
    let id = insert(&mut tx, &headers, 1).await?;
    held.begin();
    Ok(paid(if headers.contains_key("fail") { 500 } else { 201 }, id))
}

/// With the extraction in the wrapper.
#[idempotent(ttl = "24h", state = App)]
async fn stated(mut tx: Tx, headers: HeaderMap, State(_): State<Held>) -> Paid {
    Ok(paid(201, insert(&mut tx, &headers, 1).await?))
}

/// Idle for longer than its lease.
#[idempotent(ttl = "24h", lease = "300ms")]
async fn idle(mut tx: Tx, headers: HeaderMap, State(held): State<Held>) -> Paid {
    insert(&mut tx, &headers, 1).await?;
    held.begin();
    held.gate().await;
    Ok(paid(201, insert(&mut tx, &headers, 2).await?))
}

#[idempotent(ttl = "24h", record = all)]
async fn kept(mut tx: Tx, headers: HeaderMap, Json(order): Json<Order>) -> Paid {
    let id = insert(&mut tx, &headers, order.cents).await?;
    Ok(paid(order.answer, id))
}

pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/pay", post(pay))
        .route("/slow", post(slow))
        .route("/awaited", post(awaited))
        .route("/last", any(last))
        .route("/stated", post(stated))
        .route("/idle", post(idle))
        .route("/kept", post(kept))
        .merge(super::answers::routes())
        .merge(super::conflicts::routes())
        .with_state(app)
}

/// A service of its own for each test.
pub(crate) struct Test {
    pub(crate) service: Server,
    pub(crate) idempotency: Idempotency,
    pub(crate) held: Held,
    /// The application's pool.
    pub(crate) pool: PgPool,
    /// A connection of the test's own.
    pub(crate) direct: PgPool,
    pub(crate) database: String,
    _server: Arc<Postgres>,
}

/// Starts the service on `size` connections; `None` where PostgreSQL isn't installed.
pub(crate) async fn start(size: u32) -> Option<Test> {
    let server = server()?;
    let name = database(&server).await;
    let pool = pool(&server.url_of(&name), size).await;
    Some(start_over(server, name, pool, |store| store).await)
}

pub(crate) async fn start_over(
    server: Arc<Postgres>,
    name: String,
    pool: PgPool,
    configure: impl FnOnce(PostgresStore) -> PostgresStore,
) -> Test {
    let direct = idem_tests::postgres::pool(&server.url_of(&name), 2).await;
    let idempotency = Idempotency::new(configure(PostgresStore::new(pool.clone())));
    let held = Held::default();
    let app = App { idempotency: idempotency.clone(), pool: pool.clone(), held: held.clone() };
    let service = Server::start(router(app)).await;
    Test { service, idempotency, held, pool, direct, database: name, _server: server }
}

impl Test {
    /// Sends `body` with `key`.
    pub(crate) async fn send(&self, path: &str, key: &str, body: &str) -> Answer {
        Answer::to(self.request(path, key, body)).await
    }

    /// Sends without waiting for the answer.
    pub(crate) fn begin(&self, path: &str, key: &str, body: &str) -> tokio::task::JoinHandle<Answer> {
        tokio::spawn(Answer::to(self.request(path, key, body)))
    }

    pub(crate) fn request(&self, path: &str, key: &str, body: &str) -> reqwest::RequestBuilder {
        self.service.post(path, key).header("content-type", "application/json").body(body.to_owned())
    }

    /// Sends until the key is free or settled: a server may take a moment to see that a connection is gone.
    pub(crate) async fn resend(&self, path: &str, key: &str, body: &str) -> Answer {
        soon(async {
            loop {
                let answer = self.send(path, key, body).await;
                if answer.status != 409 || answer.problem() != "idempotency_in_progress" {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    }

    /// How many payments there are with this key.
    pub(crate) async fn payments(&self, key: &str) -> i64 {
        number(&self.direct, format!("SELECT count(*) FROM payments WHERE key = '{key}'")).await
    }

    pub(crate) async fn records(&self) -> i64 {
        number(&self.direct, "SELECT count(*) FROM idem_record").await
    }

    /// Waits until nothing runs, and no connection is inside a transaction.
    pub(crate) async fn settled(&self) {
        assert_eq!(self.idempotency.drain(Duration::from_secs(20)).await, 0);
        eventually("the end of every transaction", || async { self.open_transactions().await == 0 }).await;
    }

    pub(crate) async fn open_transactions(&self) -> i64 {
        let count = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND state LIKE 'idle in transaction%'",
            self.database
        );
        number(&self.direct, count).await
    }
}

/// Checks a refusal and the seconds in its `Retry-After`.
#[track_caller]
pub(crate) fn refused(answer: &Answer, status: u16, code: &str, retry_after: Option<&str>) {
    assert_eq!((answer.status, answer.problem().as_str()), (status, code));
    assert_eq!(answer.headers.get("retry-after").map(|value| value.to_str().unwrap()), retry_after);
}
