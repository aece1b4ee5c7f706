//! One request through the engine and back.

use std::{
    future, mem,
    panic::resume_unwind,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{extract::MatchedPath, response::Response};
use http::Method;

use super::{
    capture,
    extract::{Free, Guarded, Head, KeySource, Value, Why, read_key, refuse},
    key::Key,
    problem::{
        CommitRefused, CommitUnknown, InProgress, KeyInvalid, KeyMissing, KeyReused, LeaseLost, NoTransaction,
        NotInstalled, NotTransactional, OutcomeUnknown, Problem, RolledBack, StoreUnavailable,
    },
    replay,
};
use crate::{
    Idempotency,
    engine::{self, Answer, AttemptCell, Job, Seen, Verdict, Work, Written},
    fingerprint::{Fingerprint, Parts},
    policy::{Outage, Policy, Unknown},
    protocol::{Claim, RecordId},
    store::{NotCommitted, StoreError},
    telemetry::{self, Operation, Outcome},
};

/// A future of an answer, of whatever type.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The handler's future and how its answer is kept.
struct Handler {
    future: Answering,
    policy: Policy,
    idempotency: Idempotency,
}

impl Work for Handler {
    type Reply = Response;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer<Response>> {
        let response = ready!(self.future.as_mut().poll(context));
        Poll::Ready(capture::answer(response, &self.policy, &self.idempotency, context))
    }

    async fn transact(self) -> Written<Response> {
        let response = self.future.await;
        capture::written(response, &self.policy, &self.idempotency).await
    }
}

/// Guards one call of a handler. What needs no waiting is done before there is a future, and a request that is not guarded
/// goes straight to its handler.
pub(crate) fn guard(policy: Policy, head: Head, handler: Answering) -> Answering {
    match head {
        Head::Free(head) => unguarded(policy, head, handler),
        Head::Guarded(mut head) => {
            let offer = head.offer.take();
            match prepare(policy, head, handler) {
                Ok(job) => match offer {
                    None => Box::pin(pass(job)),
                    Some(offer) => Box::pin(async move {
                        offer.take_up().await;
                        pass(job).await
                    }),
                },
                Err(answering) => answering,
            }
        }
    }
}

/// Passes a request that is not guarded on to its handler.
fn unguarded(policy: Policy, head: Free, handler: Answering) -> Answering {
    let Some(idempotency) = head.idempotency else {
        let problem = NotInstalled { module: policy.module, handler: policy.handler };
        tracing::error!(target: "idem", "{problem}");
        return Box::pin(future::ready(Problem::from(problem).respond(Idempotency::PROBLEM_BASE)));
    };
    let wrong = wrong_transaction(&policy, head.attempt.as_ref(), &idempotency);
    if let Some(refusal) = wrong {
        return Box::pin(future::ready(refusal));
    }
    if let Why::NoKey(method, route) = &head.why {
        telemetry::outcome(Outcome::Unprotected, &operation_of(&policy, method, route.as_ref()), None);
    }
    unrecorded(policy, idempotency, head.attempt, handler)
}

/// All that comes before the claim; where there is nothing to claim, what answers instead.
fn prepare(policy: Policy, mut head: Box<Guarded>, handler: Answering) -> Result<Box<Job<Handler>>, Answering> {
    let refused = |refusal: Response| -> Answering { Box::pin(future::ready(refusal)) };
    let idempotency = head.idempotency.clone();
    if let Some(refusal) = wrong_transaction(&policy, head.attempt.as_ref(), &idempotency) {
        return Err(refused(refusal));
    }
    let (scope, given) = (head.scope.take(), head.given.take());
    let operation = operation_of(&policy, &head.method, head.route.as_ref());
    let key = match find_key(&policy, mem::replace(&mut head.key, KeySource::Expression), given) {
        Ok(Some(key)) => key,
        Ok(None) => {
            telemetry::outcome(Outcome::Unprotected, &operation, None);
            return Err(unrecorded(policy, idempotency, head.attempt, handler));
        }
        Err(problem) => return Err(refused(refuse(problem, Some(&idempotency), &operation))),
    };
    let token = match engine::token() {
        Ok(token) => token,
        Err(error) => {
            tracing::error!(target: "idem", %error, "no random token");
            return Err(refused(unavailable(&idempotency, &operation, None)));
        }
    };
    // An expression that finds nobody leaves the caller to be told apart by credentials, as if there were none.
    let scope = scope.flatten();
    let claim = Claim {
        id: record_id(&policy, &head, scope.as_deref(), key.as_bytes()),
        token,
        fingerprint: fingerprint(&policy, &head, scope.is_some()),
        older_fingerprints: Vec::new(),
        hold: policy.unknown == Unknown::Hold,
        lease: Duration::from_millis(policy.lease_ms),
        ttl: Duration::from_millis(policy.ttl_ms),
        waiting: false,
    };
    let wait = Duration::from_millis(policy.wait_ms);
    let work = Handler { future: handler, policy, idempotency };
    Ok(Box::new(Job { claim, operation, wait, attempt: head.attempt, work }))
}

/// Lets the engine run the job, and answers.
async fn pass(job: Box<Job<Handler>>) -> Response {
    let idempotency = job.work.idempotency.clone();
    let (handler, lease) = (job.work.policy.handler, job.claim.lease);
    let problem: Problem = match idempotency.engine().guard(job).await {
        Verdict::Ran(response) => return response,
        Verdict::Panicked(payload) => resume_unwind(payload),
        Verdict::Replay { outcome, waited, seen: Seen { operation, id } } => {
            match replay::response(outcome, &idempotency) {
                Ok(response) => {
                    let outcome = if waited { Outcome::Waited } else { Outcome::Replayed };
                    telemetry::outcome(outcome, &operation, Some(&id));
                    return response;
                }
                Err(corrupt) => {
                    idempotency.engine().doubt(&id);
                    telemetry::store_failed("replay", &id, &corrupt);
                    return unavailable(&idempotency, &operation, Some(&id));
                }
            }
        }
        Verdict::Mismatch { own, stored } => KeyReused { difference: own.difference(&stored) }.into(),
        Verdict::InProgress { lease_left } => {
            InProgress { retry_after: lease_left.unwrap_or(Duration::from_secs(1)) }.into()
        }
        Verdict::Unknown => OutcomeUnknown {}.into(),
        Verdict::LeaseLost => LeaseLost { lease }.into(),
        Verdict::NotCommitted(error) => return not_committed(&error, handler, &idempotency),
        // Without the store there is no transaction to run in either. One that has waited knows of another run.
        Verdict::Unavailable(StoreError::Fault(_), job)
            if job.work.policy.outage == Outage::Run && !job.is_transaction() && !job.claim.waiting =>
        {
            telemetry::outcome(Outcome::Unprotected, &job.operation, Some(&job.claim.id));
            return job.work.future.await;
        }
        Verdict::Unavailable(_, job) => return unavailable(&idempotency, &job.operation, Some(&job.claim.id)),
    };
    problem.respond(idempotency.problem_base())
}

/// The refusal of a handler that can't have the transactions that it takes.
fn wrong_transaction(
    policy: &Policy,
    attempt: Option<&Arc<AttemptCell>>,
    idempotency: &Idempotency,
) -> Option<Response> {
    let transactions = attempt.map_or(0, |attempt| attempt.handover().asked());
    let why = if transactions > 0 { no_transaction(policy, transactions, idempotency) } else { None };
    why.map(|why| not_transactional(policy.handler, why, idempotency))
}

/// Why the handler can't have the transactions that it takes.
fn no_transaction(policy: &Policy, transactions: usize, idempotency: &Idempotency) -> Option<NoTransaction> {
    let store = idempotency.engine().store();
    if transactions > 1 {
        Some(NoTransaction::Twice)
    } else if policy.unknown == Unknown::Hold {
        Some(NoTransaction::Hold)
    } else if store.dyn_transactional().is_none() {
        Some(NoTransaction::Store(store.dyn_name()))
    } else {
        None
    }
}

fn not_transactional(handler: &'static str, why: NoTransaction, idempotency: &Idempotency) -> Response {
    let problem = NotTransactional { handler, why };
    tracing::error!(target: "idem", "{problem}");
    Problem::from(problem).respond(idempotency.problem_base())
}

fn not_committed(error: &NotCommitted, handler: &'static str, idempotency: &Idempotency) -> Response {
    let problem: Problem = match error {
        NotCommitted::RolledBack(_) => RolledBack {}.into(),
        NotCommitted::Refused(_) => CommitRefused {}.into(),
        NotCommitted::Ended => return not_transactional(handler, NoTransaction::Ended, idempotency),
        NotCommitted::Unknown(_) => CommitUnknown {}.into(),
    };
    problem.respond(idempotency.problem_base())
}

/// Runs a handler whose request is not guarded; its transaction, where it takes one, has no record.
fn unrecorded(
    policy: Policy,
    idempotency: Idempotency,
    attempt: Option<Arc<AttemptCell>>,
    handler: Answering,
) -> Answering {
    match attempt.filter(|attempt| attempt.handover().asked() > 0) {
        None => handler,
        Some(attempt) => Box::pin(async move {
            let idle = Duration::from_millis(policy.lease_ms);
            let work = Handler { future: handler, policy, idempotency: idempotency.clone() };
            match idempotency.engine().transact_unrecorded(work, attempt, idle).await {
                Ok(Verdict::Ran(response)) => response,
                Ok(Verdict::Panicked(payload)) => resume_unwind(payload),
                Ok(Verdict::NotCommitted(error)) => not_committed(&error, policy.handler, &idempotency),
                // Without a claim there is nobody to be refused by.
                Ok(_) => Problem::from(StoreUnavailable {}).respond(idempotency.problem_base()),
                Err(error) => {
                    tracing::error!(target: "idem", error = %error, "no transaction could be begun");
                    Problem::from(StoreUnavailable {}).respond(idempotency.problem_base())
                }
            }
        }),
    }
}

/// What metrics and events call the operation.
pub(super) fn operation_of(policy: &Policy, method: &Method, route: Option<&MatchedPath>) -> Operation {
    match policy.operation {
        Some(name) => Operation::given(policy.door, name),
        None => Operation::of_route(policy.door, method, route),
    }
}

fn unavailable(idempotency: &Idempotency, operation: &Operation, record: Option<&RecordId>) -> Response {
    telemetry::outcome(Outcome::StoreError, operation, record);
    Problem::from(StoreUnavailable {}).respond(idempotency.problem_base())
}

/// The key; `None` where it is optional and absent.
fn find_key(policy: &Policy, source: KeySource, expression: Option<Value>) -> Result<Option<Found>, Problem> {
    match (source, expression) {
        (KeySource::Headers(headers), _) => {
            Ok(read_key(&headers, policy.header, policy.header, policy.optional)?.map(Found::Header))
        }
        (KeySource::Read(key), _) => Ok(Some(Found::Header(key))),
        (_, Some(Some(key))) if key.is_empty() => Err(KeyInvalid { header: None, reason: "the key is empty" }.into()),
        (_, Some(Some(key))) => Ok(Some(Found::Given(key))),
        (_, Some(None) | None) => Err(KeyMissing { header: None }.into()),
    }
}

/// A key, from wherever.
enum Found {
    Header(Key),
    Given(Vec<u8>),
}

impl Found {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Header(key) => key.as_bytes(),
            Self::Given(key) => key,
        }
    }
}

/// The operation's name in a record's id is the policy's, or else method and route template, or the path where no route
/// matched.
fn record_id(policy: &Policy, head: &Guarded, scope: Option<&[u8]>, key: &[u8]) -> RecordId {
    let route = || head.route.as_ref().map_or_else(|| head.uri.path(), MatchedPath::as_str);
    let operation = match policy.operation {
        Some(name) => [policy.door, name, "", ""],
        None => [policy.door, head.method.as_str(), " ", route()],
    };
    RecordId::derive_from(head.idempotency.namespace(), &operation, scope, key)
}

fn fingerprint(policy: &Policy, head: &Guarded, scoped: bool) -> Fingerprint {
    let credentials: Vec<_> = if scoped {
        Vec::new()
    } else {
        head.credentials.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
    };
    Fingerprint::of(&Parts {
        method: head.method.as_str(),
        path: head.uri.path(),
        query: head.uri.query(),
        credentials: &credentials,
        content_type: head.content_type.as_ref().map(http::HeaderValue::as_bytes),
        body: &head.body,
        mode: policy.fingerprint,
    })
}
