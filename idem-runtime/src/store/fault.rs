//! A store that fails on demand.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{Notify, Semaphore};

use super::{
    Ack, Claim, Claimed, Completion, CorruptRecord, Immediate, PurgeLimits, Purged, Record, RecordId, Store,
    StoreError, Token, Transactional, Wakeups,
};

/// Wraps a store and makes it fail on demand, for testing how a handler and its callers fare.
///
/// A clone is the same store: give one to the server and steer it with the other. Calls are counted from 1, for each
/// verb on its own. The engine repeats a failed claim twice within the store timeout, so a single failing claim shows
/// only in the counts; [`every`](Self::every) and [`outage`](Self::outage) get through to the caller.
///
/// ```
/// use axum::{Router, body::Body, http::{Request, StatusCode}, routing::post};
/// use idem_runtime::{Idempotency, idempotent};
/// use idem_runtime::store::{Fault, FaultStore, MemoryStore, State, Store, Verb};
/// use tower::ServiceExt;
///
/// #[idempotent(ttl = "24h")]
/// async fn pay() -> &'static str {
///     "paid"
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = FaultStore::new(MemoryStore::new());
/// let idempotency = Idempotency::new(store.clone());
/// let app: Router = Router::new().route("/pay", post(pay)).with_state(idempotency.clone());
/// let request = || Request::post("/pay").header("idempotency-key", "k1").body(Body::empty()).unwrap();
///
/// // The store goes down between the claim and the completion: the caller still learns what happened …
/// store.every(Verb::Complete, Fault::Fail);
/// let answer = app.clone().oneshot(request()).await.unwrap();
/// assert_eq!(answer.status(), StatusCode::OK);
///
/// // … and the outcome is stored as soon as the store is back.
/// store.heal();
/// idempotency.drain(std::time::Duration::from_secs(5)).await;
/// let record = store.inner().get(&store.last_claim().unwrap().id).await.unwrap().unwrap();
/// assert_eq!(record.state, State::Completed);
/// # }
/// ```
pub struct FaultStore<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    inner: S,
    script: Mutex<Script>,
    changed: Notify,
}

/// What to do with which call, and what calls there were.
#[derive(Default)]
struct Script {
    outage: bool,
    rules: Vec<Rule>,
    calls: HashMap<Verb, Calls>,
    last_claim: Option<Claim>,
    owners: HashMap<RecordId, Token>,
}

struct Rule {
    verb: Verb,
    /// `None` for every call.
    call: Option<usize>,
    fault: Fault,
}

#[derive(Clone, Copy, Default)]
struct Calls {
    arrived: usize,
    answered: usize,
}

/// A verb of [`Store`], to be counted or to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// [`Store::claim`]
    Claim,
    /// [`Store::renew`]
    Renew,
    /// [`Store::complete`]
    Complete,
    /// [`Store::release`]
    Release,
    /// [`Store::hold`]
    Hold,
    /// [`Store::get`]
    Get,
    /// [`Store::forget`]
    Forget,
    /// [`Store::purge`]
    Purge,
}

/// What goes wrong with a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// It fails, and has no effect.
    Fail,
    /// It takes effect, and its answer is lost: the caller gets a fault.
    LoseAnswer,
    /// It has no effect, and says that the record can't be read.
    Corrupt,
    /// It takes effect, and a replay's outcome comes back cut in half. For claims; other verbs do as they are told.
    Damage,
    /// It waits for the gate, then takes effect.
    Delay(Gate),
    /// It takes effect, and its answer waits for the gate.
    DelayAnswer(Gate),
}

/// Keeps delayed calls waiting until it is opened. A clone is the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets through whoever waits and whoever comes.
    pub fn open(&self) {
        self.0.close();
    }

    async fn pass(&self) {
        // It has no permits: only closing ends this.
        let _ = self.0.acquire().await;
    }
}

impl<S> Clone for FaultStore<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S: fmt::Debug> fmt::Debug for FaultStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore").field("inner", &self.shared.inner).finish_non_exhaustive()
    }
}

/// Steering.
impl<S> FaultStore<S> {
    /// A store that does as `inner` does until told otherwise.
    pub fn new(inner: S) -> Self {
        Self { shared: Arc::new(Shared { inner, script: Mutex::default(), changed: Notify::new() }) }
    }

    /// The store inside, without faults and counting.
    pub fn inner(&self) -> &S {
        &self.shared.inner
    }

    /// The `call`-th call of `verb` meets `fault`, counted from 1 and from the store's making.
    pub fn nth(&self, verb: Verb, call: usize, fault: Fault) {
        self.script().rules.push(Rule { verb, call: Some(call), fault });
    }

    /// The next call of `verb` meets `fault`.
    pub fn next(&self, verb: Verb, fault: Fault) {
        let mut script = self.script();
        let call = Some(script.calls(verb).arrived + 1);
        script.rules.push(Rule { verb, call, fault });
    }

    /// Every call of `verb` meets `fault`, but those with one of their own, until [`heal`](Self::heal).
    pub fn every(&self, verb: Verb, fault: Fault) {
        self.script().rules.push(Rule { verb, call: None, fault });
    }

    /// Every call of every verb fails without effect, until [`heal`](Self::heal).
    pub fn outage(&self) {
        self.script().outage = true;
    }

    /// Ends the outage and drops all faults that no call has met yet. Calls that wait at a gate go on waiting.
    pub fn heal(&self) {
        let mut script = self.script();
        script.outage = false;
        script.rules.clear();
    }

    /// How many calls of `verb` have arrived.
    pub fn calls(&self, verb: Verb) -> usize {
        self.script().calls(verb).arrived
    }

    /// Waits until `calls` calls of `verb` have arrived; they may not have taken effect yet.
    pub async fn arrived(&self, verb: Verb, calls: usize) {
        self.reached(|script| script.calls(verb).arrived >= calls).await;
    }

    /// Waits until `calls` calls of `verb` have been answered, failures included.
    pub async fn answered(&self, verb: Verb, calls: usize) {
        self.reached(|script| script.calls(verb).answered >= calls).await;
    }

    /// The newest claim that arrived.
    pub fn last_claim(&self) -> Option<Claim> {
        self.script().last_claim.clone()
    }

    async fn reached(&self, condition: impl Fn(&mut Script) -> bool) {
        loop {
            let changed = self.shared.changed.notified();
            if condition(&mut self.script()) {
                return;
            }
            changed.await;
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.shared.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time, run forward for one record.
impl<S: Store> FaultStore<S> {
    /// Lets the lease of the record's owner run out now. Says whether there was an owner to lose it.
    ///
    /// The owner isn't told: it goes on until its next renewal, which restores the lease unless somebody took over.
    pub async fn lapse(&self, id: &RecordId) -> Result<bool, StoreError> {
        let owner = self.script().owners.get(id).copied();
        let Some(owner) = owner else { return Ok(false) };
        Ok(self.inner().renew(id, &owner, Duration::ZERO).await? == Ack::Done)
    }

    /// Lets the record expire now. Says whether there was one. To every verb an expired record is as an absent one.
    pub async fn expire(&self, id: &RecordId) -> Result<bool, StoreError> {
        self.inner().forget(id).await
    }

    /// Makes a call, as the script has it.
    async fn call<T>(
        &self,
        verb: Verb,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.call_or_damage(verb, call, |answer| answer).await
    }

    async fn call_or_damage<T>(
        &self,
        verb: Verb,
        call: impl Future<Output = Result<T, StoreError>> + Send,
        damage: impl FnOnce(T) -> T + Send,
    ) -> Result<T, StoreError> {
        let fault = self.script().arrive(verb);
        self.shared.changed.notify_waiters();
        let result = match fault {
            None => call.await,
            Some(Fault::Damage) => call.await.map(damage),
            Some(Fault::Fail) => Err(StoreError::fault("scripted: failed before the effect")),
            Some(Fault::Corrupt) => Err(CorruptRecord::new("scripted").into()),
            Some(Fault::LoseAnswer) => {
                call.await.and_then(|_| Err(StoreError::fault("scripted: failed after the effect")))
            }
            Some(Fault::Delay(gate)) => {
                gate.pass().await;
                call.await
            }
            Some(Fault::DelayAnswer(gate)) => {
                let result = call.await;
                gate.pass().await;
                result
            }
        };
        self.script().calls(verb).answered += 1;
        self.shared.changed.notify_waiters();
        result
    }
}

impl Script {
    fn calls(&mut self, verb: Verb) -> &mut Calls {
        self.calls.entry(verb).or_default()
    }

    /// Counts a call and finds its fault: its own first, then the newest for every call.
    fn arrive(&mut self, verb: Verb) -> Option<Fault> {
        let calls = self.calls(verb);
        calls.arrived += 1;
        let call = calls.arrived;
        if self.outage {
            return Some(Fault::Fail);
        }
        if let Some(own) = self.rules.iter().position(|rule| rule.verb == verb && rule.call == Some(call)) {
            return Some(self.rules.remove(own).fault);
        }
        let every = self.rules.iter().rfind(|rule| rule.verb == verb && rule.call.is_none())?;
        Some(every.fault.clone())
    }
}

// The whole trait: a verb left to its default would bypass the store's own.
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for FaultStore<S> {
    fn name(&self) -> &'static str {
        self.inner().name()
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.script().last_claim = Some(claim.clone());
        let inner = async {
            let claimed = self.inner().claim(claim).await?;
            if matches!(claimed, Claimed::Owner { .. }) {
                self.script().owners.insert(claim.id, claim.token);
            }
            Ok(claimed)
        };
        let damage = |mut claimed| {
            if let Claimed::Replay { outcome } = &mut claimed {
                outcome.truncate(outcome.len() / 2);
            }
            claimed
        };
        self.call_or_damage(Verb::Claim, inner, damage).await
    }

    async fn renew(&self, id: &RecordId, token: &Token, lease: Duration) -> Result<Ack, StoreError> {
        self.call(Verb::Renew, self.inner().renew(id, token, lease)).await
    }

    async fn complete(&self, completion: &Completion) -> Result<Ack, StoreError> {
        self.call(Verb::Complete, self.inner().complete(completion)).await
    }

    async fn release(&self, id: &RecordId, token: &Token) -> Result<Ack, StoreError> {
        self.call(Verb::Release, self.inner().release(id, token)).await
    }

    async fn hold(&self, id: &RecordId, token: &Token, ttl: Duration) -> Result<Ack, StoreError> {
        self.call(Verb::Hold, self.inner().hold(id, token, ttl)).await
    }

    async fn get(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        self.call(Verb::Get, self.inner().get(id)).await
    }

    async fn forget(&self, id: &RecordId) -> Result<bool, StoreError> {
        self.call(Verb::Forget, self.inner().forget(id)).await
    }

    async fn purge(&self, limits: PurgeLimits) -> Result<Purged, StoreError> {
        self.call(Verb::Purge, self.inner().purge(limits)).await
    }

    fn listen(&self, wakeups: Wakeups) {
        self.inner().listen(wakeups);
    }

    /// Every call may be held up.
    fn immediate(&self) -> Option<&dyn Immediate> {
        None
    }

    /// The inner store's own: what it does in a transaction is neither counted nor made to fail.
    fn transactional(&self) -> Option<&dyn Transactional> {
        self.inner().transactional()
    }
}
