//! Records in Redis 7.0 or newer, or in Valkey.
//!
//! Each verb is one script on one string, in one round trip; the key is `idem:` and the record id, so that in a cluster
//! each record has a slot of its own. The server's clock decides. Expired records go by themselves: there is nothing to
//! purge.
//!
//! # What it needs
//!
//! * `maxmemory-policy noeviction`: an evicted record is forgotten, and its request runs again. A full server then
//!   refuses new claims, but still completes, renews and releases what it admitted, and still replays.
//! * `appendonly yes`: with `appendfsync always` a crash loses nothing; with `everysec` one of the server or the machine
//!   loses up to the last two seconds, since the server puts off its writes while an earlier sync runs.
//! * Its own database or server, where others flush theirs.
//! * With access rules: the keys `idem:*`, the channel `idem:settled`, and `EVAL`, `EVALSHA`, what the scripts call
//!   (`TIME`, `GET`, `GETRANGE`, `STRLEN`, `SET`, `SETRANGE`, `DEL`, `PUBLISH`), `UNLINK`, `SUBSCRIBE`
//!   (`SSUBSCRIBE` and `SPUBLISH` on a cluster) and, for the warnings at start, `INFO`.
//!
//! # The failover window
//!
//! Replication is asynchronous. A claim or completion that a primary acknowledged and didn't pass on before it died is
//! gone on the replica that takes over, and the request runs a second time. `min-replicas-to-write 1` with a small
//! `min-replicas-max-lag` on every node narrows the window to that lag, since a primary that has lost its replicas then
//! refuses claims; it doesn't close it. Where no second run may ever follow a failover, use Postgres.
//!
//! # Waiters
//!
//! A duplicate that waits marks the record, and only then its settlement is published: by the script itself, or on a
//! cluster by the settling process on the sharded channel `idem:settled`, which one node serves. Whoever misses the
//! message finds the record by polling.

mod check;
mod link;
mod listen;
mod record;
mod script;
mod server;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ::redis::{Value, cmd};
use bytes::Bytes;
use tokio::task::AbortHandle;

use self::{link::Link, script::Script, server::Server};
use super::{
    Ack, Claim, Claimed, Completion, PurgeLimits, Purged, Record, RecordId, Store, StoreError, Token, Wakeups,
};
use crate::protocol::millis;

/// Keeps records in Redis or Valkey, a single server or a cluster; see the [module](self) for what the server needs.
///
/// It needs no pool: all calls share one connection, which is made again when it is lost.
pub struct RedisStore {
    link: Arc<Link>,
    listener: Mutex<Option<AbortHandle>>,
}

impl RedisStore {
    /// Connects to `redis://[user:password@]host[:port][/database]`, to `rediss://…` by TLS, or, with the feature
    /// `redis-cluster`, to `redis+cluster://host:port,host:port,…`.
    ///
    /// TLS is the application's choice: `rediss://` works once it depends on `redis` with the feature
    /// `tokio-rustls-comp` or `tokio-native-tls-comp`.
    ///
    /// A wrong URL, an unreachable server, a replica and a version that is too old are errors; settings that may lose
    /// records are warnings.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, StoreError> {
        let link = Link::new(Server::parse(url.as_ref()).map_err(StoreError::fault)?);
        check::check(&link).await?;
        let store = Self { link: Arc::new(link), listener: Mutex::default() };
        // Scripts must be allowed, too, and better refused here than at the first claim.
        store.get(&RecordId::from_bytes([0; 32])).await?;
        Ok(store)
    }

    async fn call(&self, script: &Script, id: &RecordId, args: &[&[u8]]) -> Result<Answer, StoreError> {
        Answer::read(self.link.invoke(script, &key(id), args).await?, &self.link)
    }

    /// Runs the script of an owner's verb.
    async fn settle(&self, script: &Script, id: &RecordId, args: &[&[u8]]) -> Result<Ack, StoreError> {
        let answer = self.call(script, id, args).await?;
        match answer.word() {
            b"done" => {
                if answer.bytes(1) == Some(b"waited") {
                    self.announce(*id);
                }
                Ok(Ack::Done)
            }
            b"lost" => Ok(Ack::Lost),
            _ => Err(self.confused()),
        }
    }

    /// Tells waiters on a cluster: a script may publish to channels of its own slot only.
    fn announce(&self, id: RecordId) {
        let link = Arc::clone(&self.link);
        tokio::spawn(async move {
            let mut publish = cmd("SPUBLISH");
            publish.arg(listen::CHANNEL).arg(id.as_bytes());
            if let Err(error) = link.query(&publish).await {
                tracing::debug!(store = "redis", %error, "waiters on other processes are left to polling");
            }
        });
    }

    fn channel(&self) -> &'static [u8] {
        if self.link.server.is_cluster() { b"" } else { listen::CHANNEL.as_bytes() }
    }

    fn confused(&self) -> StoreError {
        self.link.fault("it did not answer as the script does")
    }
}

impl Store for RedisStore {
    fn name(&self) -> &'static str {
        "redis"
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let (lease, ttl) = (decimal(claim.lease), decimal(claim.ttl));
        let mut args: Vec<&[u8]> = vec![
            claim.token.as_bytes(),
            flag(claim.hold),
            lease.as_bytes(),
            ttl.as_bytes(),
            flag(claim.waiting),
            claim.fingerprint.as_bytes(),
        ];
        args.extend(claim.older_fingerprints.iter().map(|print| &print.as_bytes()[..]));
        let mut answer = self.call(&script::CLAIM, &claim.id, &args).await?;
        let claimed = match answer.word() {
            b"owner" => answer.bytes(1).and_then(|names| {
                let (epoch, attempt) = names.split_first_chunk()?;
                let (epoch, attempt) = (u64::from_be_bytes(*epoch), u32::from_be_bytes(attempt.try_into().ok()?));
                Some(Claimed::Owner { epoch, attempt })
            }),
            b"replay" => answer.take(1).map(|outcome| Claimed::Replay { outcome }),
            b"in_progress" => {
                answer.number(1).map(|left| Claimed::InProgress { lease_left: Some(Duration::from_millis(left)) })
            }
            b"unknown" => Some(Claimed::Unknown),
            b"mismatch" => answer.take(1).map(|stored| Claimed::Mismatch { stored }),
            _ => None,
        };
        claimed.ok_or_else(|| self.confused())
    }

    async fn renew(&self, id: &RecordId, token: &Token, lease: Duration) -> Result<Ack, StoreError> {
        self.settle(&script::RENEW, id, &[token.as_bytes(), decimal(lease).as_bytes()]).await
    }

    async fn complete(&self, completion: &Completion) -> Result<Ack, StoreError> {
        let ttl = decimal(completion.ttl);
        let mut names = [0; 12];
        let (epoch, attempt) = names.split_at_mut(8);
        epoch.copy_from_slice(&completion.epoch.to_be_bytes());
        attempt.copy_from_slice(&completion.attempt.to_be_bytes());
        let args: [&[u8]; 6] = [
            completion.token.as_bytes(),
            &names,
            completion.fingerprint.as_bytes(),
            ttl.as_bytes(),
            &completion.outcome,
            self.channel(),
        ];
        self.settle(&script::COMPLETE, &completion.id, &args).await
    }

    async fn release(&self, id: &RecordId, token: &Token) -> Result<Ack, StoreError> {
        self.settle(&script::RELEASE, id, &[token.as_bytes(), self.channel()]).await
    }

    async fn hold(&self, id: &RecordId, token: &Token, ttl: Duration) -> Result<Ack, StoreError> {
        self.settle(&script::HOLD, id, &[token.as_bytes(), decimal(ttl).as_bytes(), self.channel()]).await
    }

    async fn get(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        let mut answer = Answer(self.link.invoke(&script::GET, &key(id), &[]).await?);
        let now = answer.number(0).ok_or_else(|| self.confused())?;
        match answer.take(1) {
            Some(stored) => Ok(record::read(&stored, now)?),
            None => Ok(None),
        }
    }

    async fn forget(&self, id: &RecordId) -> Result<bool, StoreError> {
        let removed = self.link.query(cmd("UNLINK").arg(&key(id)[..])).await?;
        Ok(removed == Value::Int(1))
    }

    /// There is nothing to do: Redis removes expired keys by itself.
    async fn purge(&self, _: PurgeLimits) -> Result<Purged, StoreError> {
        Ok(Purged::default())
    }

    fn listen(&self, wakeups: Wakeups) {
        let listener = tokio::spawn(listen::run(self.link.server.clone(), wakeups)).abort_handle();
        let earlier = self.listener.lock().unwrap_or_else(PoisonError::into_inner).replace(listener);
        if let Some(earlier) = earlier {
            earlier.abort();
        }
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get_mut().unwrap_or_else(PoisonError::into_inner) {
            listener.abort();
        }
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("server", &format_args!("{}", self.link.server)).finish_non_exhaustive()
    }
}

/// What a script returned: a word and what belongs to it.
struct Answer(Vec<Value>);

impl Answer {
    fn read(values: Vec<Value>, link: &Link) -> Result<Self, StoreError> {
        let answer = Self(values);
        match answer.word() {
            b"" => Err(link.fault("it did not answer as the script does")),
            b"corrupt" => Err(record::unreadable(answer.bytes(1).unwrap_or_default()).into()),
            _ => Ok(answer),
        }
    }

    fn word(&self) -> &[u8] {
        self.bytes(0).unwrap_or_default()
    }

    fn bytes(&self, at: usize) -> Option<&[u8]> {
        match self.0.get(at)? {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn take(&mut self, at: usize) -> Option<Bytes> {
        match self.0.get_mut(at)? {
            Value::BulkString(bytes) => Some(std::mem::take(bytes).into()),
            _ => None,
        }
    }

    fn number(&self, at: usize) -> Option<u64> {
        match self.0.get(at)? {
            Value::Int(number) => (*number).try_into().ok(),
            Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
            _ => None,
        }
    }
}

fn key(id: &RecordId) -> [u8; 37] {
    let mut key = *b"idem:00000000000000000000000000000000";
    let (_, rest) = key.split_at_mut(5);
    rest.copy_from_slice(id.as_bytes());
    key
}

const fn flag(set: bool) -> &'static [u8] {
    if set { b"1" } else { b"0" }
}

/// Milliseconds as a script takes them. 17 000 years are for ever, and two of them and the time still fit a Lua number.
fn decimal(duration: Duration) -> String {
    millis(duration).min(1 << 49).to_string()
}
