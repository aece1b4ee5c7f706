//! The connection to the server, made again whenever the old one is of no more use.
//!
//! The crate's own `ConnectionManager` is not used: it keeps for ever the result of a reconnection that ended in an
//! answer such as LOADING, it stays with a silent connection and with a demoted primary, and it fails the first call
//! after an outage.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ::redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, PushInfo, RedisError, RedisResult, ServerErrorKind, Value,
    aio::{ConnectionLike as _, MultiplexedConnection},
};
use tokio::{
    sync::mpsc::UnboundedSender,
    time::{Instant, timeout},
};

use super::{script::Script, server::Server};
use crate::store::StoreError;

/// How long the server may take to answer.
pub(super) const ANSWER: Duration = Duration::from_millis(1500);
/// How long connecting may take.
pub(super) const CONNECT: Duration = Duration::from_secs(1);
/// How long a call may take, connecting included: less than the two seconds the engine waits.
const CALL: Duration = Duration::from_millis(1800);
/// After a failed connection none is tried for this long, so that an outage is not a storm of attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection that many calls share.
#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    #[cfg(feature = "redis-cluster")]
    Cluster(::redis::cluster_async::ClusterConnection),
}

impl Connection {
    pub(super) async fn query(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(connection) => connection.req_packed_command(cmd).await?.extract_error(),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(connection) => connection.req_packed_command(cmd).await?.extract_error(),
        }
    }

    /// Subscribes to `channel`, on a cluster at the one node that serves it.
    pub(super) async fn subscribe(&mut self, channel: &str) -> RedisResult<()> {
        match self {
            Self::Single(connection) => connection.subscribe(channel).await,
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(connection) => connection.ssubscribe(channel).await,
        }
    }
}

/// The settings of every connection, none of them left to a default.
pub(super) fn settings(pushes: Option<UnboundedSender<PushInfo>>) -> AsyncConnectionConfig {
    let settings = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(Some(ANSWER))
        .set_pipeline_buffer_size(1024);
    match pushes {
        Some(pushes) => settings.set_push_sender(pushes),
        None => settings,
    }
}

/// Keeps a connection to one server or cluster.
pub(super) struct Link {
    pub(super) server: Server,
    current: Mutex<Current>,
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Current {
    /// How many connections there have been, so that a late error doesn't drop a newer one.
    number: u64,
    connection: Option<Connection>,
    failed: Option<(Instant, RedisError)>,
}

impl Link {
    pub(super) fn new(server: Server) -> Self {
        Self { server, current: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    /// Runs `script`, or its other form where the server is full.
    pub(super) async fn invoke(&self, script: &Script, key: &[u8], args: &[&[u8]]) -> Result<Vec<Value>, StoreError> {
        match self.bounded(self.run(script, key, args)).await? {
            Value::Array(answer) => Ok(answer),
            _ => Err(self.fault("it did not answer as the script does")),
        }
    }

    /// Runs `script`: whole where the server has forgotten it, in its other form where it is full, and once more on a new
    /// connection when the old one turns out to be cut, as every script recognises its own repetition by the token.
    async fn run(&self, mut script: &Script, key: &[u8], args: &[&[u8]]) -> RedisResult<Value> {
        let mut cmd = script.by_hash(key, args);
        let (mut known, mut cut) = (true, false);
        loop {
            let (error, stood) = match self.once(&cmd).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            if stood && !cut && error.is_connection_dropped() {
                cut = true;
            } else if known && error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) {
                cmd = script.whole(key, args);
                known = false;
            } else if error.code() == Some("OOM")
                && let Some(other) = script.when_full
            {
                (script, cmd) = (other, other.by_hash(key, args));
                known = true;
            } else {
                return Err(error);
            }
        }
    }

    /// Runs a command once.
    pub(super) async fn query(&self, cmd: &Cmd) -> Result<Value, StoreError> {
        self.bounded(async { self.once(cmd).await.map_err(|(error, _)| error) }).await
    }

    async fn bounded(&self, work: impl Future<Output = RedisResult<Value>>) -> Result<Value, StoreError> {
        match timeout(CALL, work).await {
            Ok(answer) => answer.map_err(|error| match error.code() {
                Some("WRONGTYPE") => super::record::unreadable(b"damaged").into(),
                _ => self.fault(error),
            }),
            Err(_) => Err(self.fault("it did not answer in time")),
        }
    }

    /// An error says also whether the connection stood when the command was sent.
    async fn once(&self, cmd: &Cmd) -> Result<Value, (RedisError, bool)> {
        let (number, mut connection) = self.connection().await.map_err(|error| (error, false))?;
        connection.query(cmd).await.map_err(|error| {
            if self.server.reconnects_after(&error) {
                let mut current = self.lock();
                if current.number == number {
                    current.connection = None;
                }
            }
            (error, true)
        })
    }

    async fn connection(&self) -> RedisResult<(u64, Connection)> {
        if let Some(found) = self.lock().usable()? {
            return Ok(found);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(found) = self.lock().usable()? {
            return Ok(found);
        }
        // Boxed, as it is seldom there and would make every call as large.
        let connected = Box::pin(self.server.connect(None)).await;
        let mut current = self.lock();
        match connected {
            Ok(connection) => {
                *current = Current { number: current.number + 1, connection: Some(connection.clone()), failed: None };
                Ok((current.number, connection))
            }
            Err(error) => {
                current.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.lock().connection.is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fault that says where.
    pub(super) fn fault(&self, cause: impl fmt::Display) -> StoreError {
        StoreError::fault(format!("redis at {}: {cause}", self.server))
    }
}

impl Current {
    fn usable(&self) -> RedisResult<Option<(u64, Connection)>> {
        match (&self.connection, &self.failed) {
            (Some(connection), _) => Ok(Some((self.number, connection.clone()))),
            (None, Some((at, error))) if at.elapsed() < PAUSE => Err(error.clone()),
            (None, _) => Ok(None),
        }
    }
}
