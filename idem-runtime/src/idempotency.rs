//! The handle: one store, one configuration, cheap to clone.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, COOKIE},
};
use tokio::task::JoinHandle;

#[cfg(feature = "postgres")]
use crate::store::{PostgresStore, postgres::Delivery};
use crate::{
    KeyPart,
    connect::{ConnectError, connect},
    engine::{Engine, LocalCache},
    protocol::RecordId,
    store::{DynStore, PurgeLimits, Store, StoreError},
};

/// Guards handlers with one store. Cheap to clone; put it into the router's state, or into an `Extension` layer.
///
/// ```
/// use axum::{Json, Router, extract::FromRef, http::StatusCode, routing::post};
/// use idem_runtime::{Idempotency, idempotent, store::MemoryStore};
///
/// #[derive(Clone)]
/// struct App {
///     idempotency: Idempotency,
/// }
///
/// impl FromRef<App> for Idempotency {
///     fn from_ref(app: &App) -> Self {
///         app.idempotency.clone()
///     }
/// }
///
/// #[idempotent(ttl = "24h")]
/// async fn create_payment(Json(cents): Json<u64>) -> (StatusCode, Json<u64>) {
///     (StatusCode::CREATED, Json(cents))
/// }
///
/// let app = App { idempotency: Idempotency::new(MemoryStore::new()) };
/// let router: Router = Router::new().route("/payments", post(create_payment)).with_state(app);
/// ```
#[derive(Clone)]
pub struct Idempotency {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<Engine>,
    settings: Settings,
}

/// What a builder sets.
struct Settings {
    namespace: Cow<'static, str>,
    replay_header: HeaderName,
    problem_base: Cow<'static, str>,
    credential_headers: Vec<HeaderName>,
    kept_headers: Vec<HeaderName>,
    store_timeout: Duration,
    local_cache: Option<usize>,
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("store", &self.store().dyn_name())
            .field("namespace", &self.namespace())
            .finish_non_exhaustive()
    }
}

impl Idempotency {
    /// What `type` begins with unless the builder says otherwise.
    pub(crate) const PROBLEM_BASE: &str = "urn:problem:idempotency:";

    /// The `scope` of [`forget`](Self::forget) for a handler that has none.
    pub const NO_SCOPE: Option<&str> = None;

    /// Guards with `store` and the default configuration.
    pub fn new(store: impl Store) -> Self {
        Self::builder(store).build()
    }

    /// Guards with the store that `url` names, with the default configuration:
    /// `memory:`, `sqlite:./idem.db`, `postgres://…`, `redis://…`, `rediss://…` or `redis+cluster://host1,host2,…`.
    ///
    /// Creates what the store needs. A wrong URL, a store whose cargo feature is off and a server that can't be reached
    /// are errors at once, never a fall-back to memory.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Ok(Self::connect_builder(url).await?.build())
    }

    /// As [`connect`](Self::connect), to be configured.
    pub async fn connect_builder(url: &str) -> Result<Builder, ConnectError> {
        Ok(Builder::new(connect(url).await?))
    }

    /// Starts a configuration for `store`.
    pub fn builder(store: impl Store) -> Builder {
        Builder::new(Arc::new(store))
    }

    /// Waits until every running attempt has ended and is settled, for `timeout` at most; says how many still run then.
    ///
    /// Handlers run detached from their connections, so a graceful shutdown of the server doesn't wait for them: call
    /// this after `axum::serve` has returned. What still runs after it is stopped with the process, and its key is free
    /// when the lease lapses.
    pub async fn drain(&self, timeout: Duration) -> usize {
        self.engine().running().drain(timeout).await
    }

    /// Removes expired records now; says how many. A store whose records expire by themselves removes none.
    pub async fn purge_expired(&self) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let purged = self.engine().purge(PurgeLimits::default()).await?;
            removed += purged.removed;
            if !purged.more {
                return Ok(removed);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Removes expired records every so often, in a task of its own. The task ends when the handle's last clone is gone,
    /// or when the returned handle is aborted.
    pub fn spawn_purger(&self, every: Duration) -> JoinHandle<()> {
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every.max(Duration::from_millis(1)));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(inner) = inner.upgrade() else { return };
                if let Err(error) = (Self { inner }).purge_expired().await {
                    tracing::warn!(target: "idem", error = %error, "expired records could not be removed");
                }
            }
        })
    }

    /// Frees a key, whatever its record says: after someone decided about a held one, or to undo a completed one. Says
    /// whether there was a record.
    ///
    /// `operation` is the `operation` option's, or method and route template as in `"POST /payments"`; `scope` is what
    /// the `scope` expression gives, [`NO_SCOPE`](Self::NO_SCOPE) where there is none; `key` is the header's value without
    /// its quotes, or what the `key` expression gives, such as `(shop, "evt_1")`.
    pub async fn forget(&self, operation: &str, scope: impl KeyPart, key: impl KeyPart) -> Result<bool, StoreError> {
        self.engine().forget(&self.record_id(operation, scope, key)).await
    }

    /// The 8 hex digits by which events name a record (`record=18367835`), from what [`forget`](Self::forget) takes: to
    /// find the key that a support case is about in the log, or to see that the three names are the right ones.
    pub fn record_name(&self, operation: &str, scope: impl KeyPart, key: impl KeyPart) -> String {
        self.record_id(operation, scope, key).to_string()
    }

    fn record_id(&self, operation: &str, scope: impl KeyPart, key: impl KeyPart) -> RecordId {
        let (mut scoped, mut keyed) = (Vec::new(), Vec::new());
        let scope = scope.append(&mut scoped).then_some(&*scoped);
        // A missing key is nobody's: its name is the empty one's, which is refused.
        let _ = key.append(&mut keyed);
        RecordId::derive(self.namespace(), operation, scope, &keyed)
    }

    /// Empties this process's [local cache](Builder::local_cache), after records were changed in the store by hand.
    pub fn clear_local_cache(&self) {
        if let Some(cache) = self.engine().cache() {
            cache.clear();
        }
    }

    /// Whether `connection`'s open transaction is the first to do `operation` for `key`: the inbox of a consumer that may
    /// get a message more than once. The record commits with the transaction, or is undone with it; a committed one is
    /// kept for `ttl`.
    ///
    /// One round trip. It never waits for another transaction: what runs elsewhere is [`Delivery::Busy`]. Outside a transaction
    /// the record commits by itself, before the effect. A conflict with another transaction is an error, after which the
    /// caller's transaction can only be rolled back. Any store but PostgreSQL is an error too. The records are those of
    /// [`once`](Self::once): what one of the two has done is not the other's to do again. Each holds a lock of the server's until its
    /// transaction ends, and the server has some thousands (`max_locks_per_transaction` × connections): a batch of hundreds is fine.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use idem_runtime::{Idempotency, store::postgres::Delivery};
    ///
    /// # struct Message { id: String, cents: i64 }
    /// # async fn requeue(_: Message) {}
    /// async fn consume(
    ///     idempotency: &Idempotency,
    ///     pool: &sqlx::PgPool,
    ///     message: Message,
    /// ) -> Result<(), Box<dyn std::error::Error>> {
    ///     let mut tx = pool.begin().await?;
    ///     let week = Duration::from_hours(7 * 24);
    ///     match idempotency.once_in(&mut tx, "payments.received", &message.id, week).await? {
    ///         Delivery::First => {
    ///             sqlx::query("INSERT INTO payments (cents) VALUES ($1)").bind(message.cents).execute(&mut *tx).await?;
    ///             tx.commit().await?;
    ///         }
    ///         Delivery::Repeated => tx.rollback().await?,
    ///         Delivery::Busy => {
    ///             tx.rollback().await?;
    ///             requeue(message).await;
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[cfg(feature = "postgres")]
    pub async fn once_in(
        &self,
        connection: &mut sqlx::PgConnection,
        operation: &str,
        key: &(impl KeyPart + ?Sized),
        ttl: Duration,
    ) -> Result<Delivery, StoreError> {
        let store: Option<&dyn std::any::Any> = self.store().dyn_transactional().map(|store| store as _);
        let Some(store) = store.and_then(|store| store.downcast_ref::<PostgresStore>()) else {
            return Err(StoreError::fault("`once_in` needs an `Idempotency` over a `PostgresStore`"));
        };
        if ttl < Duration::from_millis(1) {
            return Err(StoreError::fault("the ttl is below a millisecond"));
        }
        let mut bytes = Vec::new();
        if !key.append(&mut bytes) || bytes.is_empty() {
            return Err(StoreError::fault("the key is empty"));
        }
        let id = RecordId::derive(self.namespace(), &Self::topic(operation), None, &bytes);
        store.once_in(connection, &id, &crate::engine::token()?, ttl).await
    }

    /// The operation of a message's record, which is no handler's.
    #[cfg(any(feature = "once", feature = "postgres"))]
    pub(crate) fn topic(name: &str) -> String {
        format!("once {name}")
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.inner.engine
    }

    fn store(&self) -> &Arc<dyn DynStore> {
        self.engine().store()
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.inner.settings.namespace
    }

    pub(crate) fn replay_header(&self) -> &HeaderName {
        &self.inner.settings.replay_header
    }

    pub(crate) fn problem_base(&self) -> &str {
        &self.inner.settings.problem_base
    }

    pub(crate) fn kept_headers(&self) -> &[HeaderName] {
        &self.inner.settings.kept_headers
    }

    /// The fields of `headers` that say who is calling.
    pub(crate) fn credentials(&self, headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
        let names = self.inner.settings.credential_headers.iter();
        names.flat_map(|name| headers.get_all(name).iter().map(|value| (name.clone(), value.clone()))).collect()
    }
}

/// Configures an [`Idempotency`].
pub struct Builder {
    store: Arc<dyn DynStore>,
    settings: Settings,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("store", &self.store.dyn_name()).finish_non_exhaustive()
    }
}

impl Builder {
    fn new(store: Arc<dyn DynStore>) -> Self {
        let settings = Settings {
            namespace: Cow::Borrowed(""),
            replay_header: HeaderName::from_static("idempotent-replayed"),
            problem_base: Cow::Borrowed(Idempotency::PROBLEM_BASE),
            credential_headers: vec![AUTHORIZATION, COOKIE, HeaderName::from_static("x-api-key")],
            kept_headers: Vec::new(),
            store_timeout: Duration::from_secs(2),
            local_cache: None,
        };
        Self { store, settings }
    }

    /// Keeps the records of applications, environments or versions that share a store apart. Default: empty.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<Cow<'static, str>>) -> Self {
        self.settings.namespace = namespace.into();
        self
    }

    /// The header that marks a replayed answer. Default: `Idempotent-Replayed`, as Stripe and Mollie send it.
    ///
    /// # Panics
    ///
    /// If `name` is no header name.
    #[must_use]
    pub fn replay_header(mut self, name: &str) -> Self {
        self.settings.replay_header = header_name(name);
        self
    }

    /// What the `type` of a problem begins with, instead of `urn:problem:idempotency:`; the problem's code follows.
    #[must_use]
    pub fn problem_base(mut self, base: impl Into<Cow<'static, str>>) -> Self {
        self.settings.problem_base = base.into();
        self
    }

    /// The request headers that say who is calling where a handler has no `scope`. Default: `Authorization`, `Cookie`
    /// and `X-Api-Key`.
    ///
    /// # Panics
    ///
    /// If one of `names` is no header name.
    #[must_use]
    pub fn credential_headers<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.settings.credential_headers = names.into_iter().map(header_name).collect();
        self
    }

    /// Stores and replays these response headers too, out of `Set-Cookie`, `WWW-Authenticate`, `Authentication-Info` and
    /// `Clear-Site-Data`. Default: none, since a replayed session cookie may revive a session that has ended.
    ///
    /// # Panics
    ///
    /// If one of `names` is no header name.
    #[must_use]
    pub fn replay_also<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.settings.kept_headers = names.into_iter().map(header_name).collect();
        self
    }

    /// How long a request waits for the store before it is refused with 503, or answered though its outcome is not
    /// stored yet. Default: 2 seconds.
    #[must_use]
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.settings.store_timeout = timeout;
        self
    }

    /// Keeps completed outcomes of about `bytes` in this process, its own bookkeeping included, so that a replay asks the
    /// store nothing. For stores behind a network; before a [`MemoryStore`](crate::store::MemoryStore) it gains nothing.
    /// Default: none.
    ///
    /// An outcome is kept for 60 seconds at most and never longer than its record; the oldest make room, and one above a
    /// sixteenth of `bytes` is not kept. The request is compared as the store compares it.
    ///
    /// [`forget`](Idempotency::forget) on this handle or a clone is seen at once. On other processes, and when a record
    /// is removed in the store itself, a replay may be given for 60 seconds more;
    /// [`clear_local_cache`](Idempotency::clear_local_cache) ends that on a process.
    #[must_use]
    pub fn local_cache(mut self, bytes: usize) -> Self {
        self.settings.local_cache = Some(bytes);
        self
    }

    /// The handle.
    pub fn build(self) -> Idempotency {
        let cache = self.settings.local_cache.map(LocalCache::new);
        let engine = Arc::new(Engine::new(self.store, self.settings.store_timeout, cache));
        Idempotency { inner: Arc::new(Inner { engine, settings: self.settings }) }
    }
}

#[expect(clippy::panic, reason = "documented: a wrong literal should stop the start-up, not every request")]
fn header_name(name: &str) -> HeaderName {
    HeaderName::from_bytes(name.as_bytes()).unwrap_or_else(|_| panic!("`{name}` is no header name"))
}
