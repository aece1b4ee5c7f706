//! Consumers: a message that is delivered twice has one effect. No HTTP.

use std::{
    borrow::Cow,
    fmt, mem,
    panic::resume_unwind,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_core::{Serialize, de::DeserializeOwned};

use crate::{
    Attempt, Idempotency, KeyPart,
    engine::{self, Answer, AttemptCell, Close, Job, Settle, Verdict, Work, Written},
    fingerprint::{Fingerprint, Parts},
    policy::{BodyFingerprint, Policy, Unknown},
    protocol::{Claim, RecordId},
    store::{CorruptRecord, StoreError},
    telemetry::{self, Operation, Outcome},
    values::{Time, conflicts},
};

/// Stands before a stored value: a format of its own, that can't be taken for an HTTP answer's.
const JSON: u8 = 0x4A;
/// The work ran and its value could not be written.
const NOT_KEPT: u8 = 0x4E;

impl Idempotency {
    /// Prepares to do something once for each message: `topic` says what is done, `id` names the message as its sender
    /// does (a message id, an event's id, topic partition and offset).
    ///
    /// ```
    /// use idem_runtime::{Idempotency, Once, store::MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// for delivery in ["m-1", "m-1"] {
    ///     let once = idempotency.once("orders.created", delivery).ttl("7d");
    ///     match once.run(async || Ok::<_, std::io::Error>("shipped".to_owned())).await? {
    ///         Once::First(_) | Once::Replayed(_) => {}        // acknowledge
    ///         Once::InProgress { retry_after: _ } => break,   // put it back: another consumer is at it
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// The ttl must outlast the broker's last redelivery of a message; it is a day unless set. Records are kept apart from
    /// those of handlers; for [`forget`](Self::forget) and in events the operation is `once ` and the topic.
    pub fn once(&self, topic: impl Into<Cow<'static, str>>, id: impl KeyPart) -> OnceRun {
        let mut key = Vec::new();
        let key = id.append(&mut key).then_some(key).filter(|key| !key.is_empty());
        OnceRun {
            idempotency: self.clone(),
            operation: Self::topic(&topic.into()).into(),
            key,
            ttl: Time::from(Duration::from_hours(24)),
            lease: Time::from(Duration::from_millis(Policy::DEFAULT.lease_ms)),
            wait: None,
            unknown: Unknown::Retry,
        }
    }
}

/// How a message ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once<T> {
    /// The work ran now, and its value is stored: acknowledge the message.
    First(T),
    /// It ran before, and this is what it gave then: acknowledge the message.
    Replayed(T),
    /// It runs elsewhere: put the message back, and don't ask for it sooner than this.
    InProgress {
        /// What is left of the lease; it may well end sooner.
        retry_after: Duration,
    },
}

/// Why a message has no value: it isn't done, or nobody knows.
#[derive(Debug)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The work ran and failed with this error. The message is not marked as seen: the next delivery runs it again.
    Failed(E),
    /// The store could not be reached, or its record could not be read. Nothing ran: put the message back.
    Store(StoreError),
    /// The work was stopped, since its lease could not be renewed. Put the message back.
    LeaseLost,
    /// An earlier run ended nobody knows how, and `unknown` is [`Unknown::Hold`]: someone must decide. Set the message aside.
    OutcomeUnknown,
    /// It ran before, and what it gave can't be had: it could not be stored as JSON, or is none of the type that is asked for now.
    /// Acknowledge the message.
    NotKept,
    /// The message has no id.
    NoId,
    /// An option can't be used; says why, in the attribute's words. Nothing ran.
    Options(String),
}

impl<E: fmt::Display> fmt::Display for OnceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "the work failed: {error}"),
            Self::Store(_) => f.write_str("the idempotency store failed"),
            Self::LeaseLost => f.write_str("the work was stopped, since its lease could not be renewed"),
            Self::OutcomeUnknown => {
                f.write_str("an earlier run ended without a known outcome, and someone must decide")
            }
            Self::NotKept => f.write_str("it ran before, and what it gave can't be had"),
            Self::NoId => f.write_str("the message has no id"),
            Self::Options(wrong) => f.write_str(wrong),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for OnceError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

/// One message, to be worked on once. Made by [`Idempotency::once`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `run`"]
pub struct OnceRun {
    idempotency: Idempotency,
    operation: Arc<str>,
    key: Option<Vec<u8>>,
    ttl: Time,
    lease: Time,
    wait: Option<Time>,
    unknown: Unknown,
}

impl OnceRun {
    /// How long the value is kept, from its completion. Default: 24 hours.
    pub fn ttl(mut self, ttl: impl Into<Time>) -> Self {
        self.ttl = ttl.into();
        self
    }

    /// How soon the message of a consumer that crashed may be taken over; renewed while the work runs. Default: 30 seconds.
    pub fn lease(mut self, lease: impl Into<Time>) -> Self {
        self.lease = lease.into();
        self
    }

    /// How long a duplicate waits for the run elsewhere, before it is [`Once::InProgress`]. Default: not at all.
    pub fn wait(mut self, wait: impl Into<Time>) -> Self {
        self.wait = Some(wait.into());
        self
    }

    /// What follows a panic or a lapsed lease. Default: the next delivery runs again.
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.unknown = unknown;
        self
    }

    /// Runs `work` unless it has run for this message, or runs now.
    ///
    /// The work's first turn is in the caller's task and the rest in one of its own: dropping this future doesn't stop it, and its outcome is recorded. A panic goes
    /// on to the caller once the record is settled. The value is stored as JSON.
    pub async fn run<T, E, F, R>(self, work: F) -> Result<Once<T>, OnceError<E>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Send + 'static,
    {
        self.run_with(|_| work()).await
    }

    /// As [`run`](Self::run), and tells the work which [`Attempt`] it is: its epoch is the fencing token to hand to what is
    /// changed.
    pub async fn run_with<T, E, F, R>(self, work: F) -> Result<Once<T>, OnceError<E>>
    where
        F: FnOnce(Attempt) -> R + Send + 'static,
        R: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Send + 'static,
    {
        let (claim, wait) = self.claim()?;
        let (id, operation) = (claim.id, Operation::made(self.operation));
        let attempt = Arc::<AttemptCell>::default();
        let work = Consume::Waits(work, Attempt::of(Arc::clone(&attempt)));
        let job = Job { claim, operation: operation.clone(), wait, attempt: Some(attempt), work };
        let told = |outcome| telemetry::outcome(outcome, &operation, Some(&id));
        match self.idempotency.engine().guard(Box::new(job)).await {
            Verdict::Ran(Ok(value)) => Ok(Once::First(value)),
            Verdict::Ran(Err(error)) => Err(OnceError::Failed(error)),
            Verdict::Panicked(payload) => resume_unwind(payload),
            Verdict::Replay { outcome, waited, .. } => {
                let value = read(&outcome);
                if let Err(OnceError::Store(error)) = &value {
                    self.idempotency.engine().doubt(&id);
                    telemetry::store_failed("replay", &id, error);
                    told(Outcome::StoreError);
                } else {
                    told(if waited { Outcome::Waited } else { Outcome::Replayed });
                }
                value.map(Once::Replayed)
            }
            Verdict::InProgress { lease_left } => {
                Ok(Once::InProgress { retry_after: lease_left.unwrap_or(Duration::from_secs(1)) })
            }
            Verdict::Unknown => Err(OnceError::OutcomeUnknown),
            Verdict::LeaseLost => Err(OnceError::LeaseLost),
            Verdict::NotCommitted(error) => Err(OnceError::Store(StoreError::fault(error))),
            Verdict::Mismatch { .. } => Err(OnceError::Store(corrupt("its fingerprint is no message's"))),
            Verdict::Unavailable(error, _) => {
                told(Outcome::StoreError);
                Err(OnceError::Store(error))
            }
        }
    }

    fn claim<E>(&self) -> Result<(Claim, Duration), OnceError<E>> {
        let key = self.key.as_deref().ok_or(OnceError::NoId)?;
        let option =
            |name: &str, time: Time| time.millis().map_err(|wrong| OnceError::Options(format!("`{name}`: {wrong}")));
        let ttl = option("ttl", self.ttl.clone())?;
        let lease = option("lease", self.lease.clone())?;
        let wait = self.wait.clone().map_or(Ok(0), |wait| option("wait", wait))?;
        let wrong = conflicts(ttl, lease, wait, None);
        if !wrong.is_empty() {
            return Err(OnceError::Options(wrong.join("\n")));
        }
        let claim = Claim {
            id: RecordId::derive(self.idempotency.namespace(), &self.operation, None, key),
            token: engine::token().map_err(OnceError::Store)?,
            fingerprint: Fingerprint::of(&Parts {
                method: "",
                path: "",
                query: None,
                credentials: &[],
                content_type: None,
                body: &[],
                mode: BodyFingerprint::None,
            }),
            older_fingerprints: Vec::new(),
            hold: self.unknown == Unknown::Hold,
            lease: Duration::from_millis(lease),
            ttl: Duration::from_millis(ttl),
            waiting: false,
        };
        Ok((claim, Duration::from_millis(wait)))
    }
}

/// The work on one message.
enum Consume<F, R> {
    Waits(F, Attempt),
    Runs(Pin<Box<R>>),
    Begins,
}

impl<F: FnOnce(Attempt) -> R, R> Consume<F, R> {
    /// Begins, unless it has.
    fn begin(self) -> Option<Pin<Box<R>>> {
        match self {
            Self::Waits(work, attempt) => Some(Box::pin(work(attempt))),
            Self::Runs(runs) => Some(runs),
            Self::Begins => None,
        }
    }
}

impl<F, R, T, E> Work for Consume<F, R>
where
    F: FnOnce(Attempt) -> R + Send + 'static,
    R: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize + Send + 'static,
    E: Send + 'static,
{
    type Reply = Result<T, E>;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer<Result<T, E>>> {
        let Some(mut runs) = mem::replace(self, Self::Begins).begin() else { return Poll::Pending };
        let Poll::Ready(reply) = runs.as_mut().poll(context) else {
            *self = Self::Runs(runs);
            return Poll::Pending;
        };
        let settle = match &reply {
            Ok(value) => Settle::Keep(written(value)),
            // It says itself that nothing is done, so there is nothing to hold.
            Err(_) => Settle::Release,
        };
        Poll::Ready(Answer { reply, settle })
    }

    async fn transact(self) -> Written<Result<T, E>> {
        let reply = match self.begin() {
            Some(runs) => runs.await,
            None => std::future::pending().await,
        };
        let close = match &reply {
            Ok(value) => Close::Commit(written(value)),
            Err(_) => Close::Forget,
        };
        Written { reply, close, failed: false }
    }
}

/// The value's record. The work is done, so one that can't be written is marked, not run again.
fn written(value: &impl Serialize) -> Bytes {
    let mut out = BytesMut::with_capacity(64).writer();
    out.get_mut().put_u8(JSON);
    match serde_json::to_writer(&mut out, value) {
        Ok(()) => out.into_inner().freeze(),
        Err(error) => {
            tracing::warn!(target: "idem", %error, "a consumer's value could not be written as JSON");
            Bytes::from_static(&[NOT_KEPT])
        }
    }
}

fn read<T: DeserializeOwned, E>(outcome: &[u8]) -> Result<T, OnceError<E>> {
    match outcome {
        [JSON, json @ ..] => serde_json::from_slice(json).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => {
                tracing::warn!(target: "idem", "a consumer's value is not of the type that is asked for");
                OnceError::NotKept
            }
            _ => OnceError::Store(corrupt("its value is no JSON")),
        }),
        [NOT_KEPT] => Err(OnceError::NotKept),
        _ => Err(OnceError::Store(corrupt("its value has a format this version doesn't know"))),
    }
}

fn corrupt(why: &'static str) -> StoreError {
    StoreError::Corrupt(CorruptRecord::new(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written down once: a record in a store must stay readable by every later version.
    #[test]
    fn the_format_is_frozen() {
        assert_eq!(written(&("a", 1)), b"J[\"a\",1]".as_slice());
        let back: Result<(String, u8), OnceError<()>> = read(b"J[\"a\",1]");
        assert_eq!(back.unwrap(), ("a".to_owned(), 1));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for damaged in [&b""[..], b"J", b"J\"a", b"\x01\x00\x00\xc9", b"Nx"] {
            assert!(
                matches!(read::<String, ()>(damaged), Err(OnceError::Store(StoreError::Corrupt(_)))),
                "{damaged:?}"
            );
        }
    }

    /// The work is done: an error that asks for the message again would come for ever.
    #[test]
    fn a_value_of_another_type_is_done_all_the_same() {
        assert!(matches!(read::<String, ()>(b"J1"), Err(OnceError::NotKept)));
        assert!(matches!(read::<f64, ()>(&written(&f64::NAN)), Err(OnceError::NotKept)));
    }

    #[test]
    fn a_value_that_is_no_json_is_marked() {
        let keyed = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(matches!(read::<(), ()>(&written(&keyed)), Err(OnceError::NotKept)));
    }
}
