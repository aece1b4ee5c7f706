//! One request through the engine and back.

use std::{borrow::Cow, panic::resume_unwind, sync::Arc, time::Duration};

use axum::{extract::MatchedPath, response::Response};
use http::Method;

use super::{
    capture,
    extract::{Head, KeySource, Value, label, operation_name, read_key, refuse},
    problem::{
        CommitRefused, CommitUnknown, InProgress, KeyInvalid, KeyMissing, KeyReused, LeaseLost, NoTransaction,
        NotInstalled, NotTransactional, OutcomeUnknown, Problem, RolledBack, StoreUnavailable,
    },
    replay,
};
use crate::{
    Idempotency,
    engine::{self, Answer, Job, Verdict, Work, Written},
    fingerprint::{Fingerprint, Parts},
    policy::{Outage, Policy, Unknown},
    protocol::{Claim, RecordId},
    store::{NotCommitted, StoreError},
    telemetry::{self, Outcome},
};

/// The handler's future and how its answer is kept.
struct Handler<F> {
    future: F,
    policy: Policy,
    idempotency: Idempotency,
}

impl<F: Future<Output = Response> + Send + 'static> Work for Handler<F> {
    type Reply = Response;

    async fn run(self) -> Answer<Response> {
        let response = self.future.await;
        capture::answer(response, &self.policy, &self.idempotency).await
    }

    async fn transact(self) -> Written<Response> {
        let response = self.future.await;
        capture::written(response, &self.policy, &self.idempotency).await
    }
}

/// Guards one call of a handler.
pub(crate) async fn guard<F>(policy: Policy, mut head: Box<Head>, handler: F) -> Response
where
    F: Future<Output = Response> + Send + 'static,
{
    let Some(idempotency) = head.idempotency.clone() else {
        let problem = NotInstalled { module: policy.module, handler: policy.handler };
        tracing::error!(target: "idem", "{problem}");
        return Problem::from(problem).respond(Idempotency::PROBLEM_BASE);
    };
    let transactions = head.attempt.handover().asked();
    if transactions > 0
        && let Some(why) = no_transaction(&policy, transactions, &idempotency)
    {
        return not_transactional(&policy, why, &idempotency);
    }
    let work = Handler { future: handler, policy, idempotency: idempotency.clone() };
    if matches!(head.key, KeySource::Ignored) {
        return unrecorded(work, &head).await;
    }
    let (scope, given) = (head.scope.take(), head.given.take());
    let operation = match policy.operation {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(operation_name(&head.method, head.route.as_ref(), &head.uri)),
    };
    let operation = if policy.door.is_empty() { operation } else { Cow::Owned(format!("{}{operation}", policy.door)) };
    let label = label_of(&policy, &head.method, head.route.as_ref());
    let key = match find_key(&policy, &head, given) {
        Ok(Some(key)) => key,
        Ok(None) => {
            telemetry::outcome(Outcome::Unprotected, &label, None);
            return unrecorded(work, &head).await;
        }
        Err(problem) => return refuse(problem, Some(&idempotency), &label),
    };
    let token = match engine::token() {
        Ok(token) => token,
        Err(error) => {
            tracing::error!(target: "idem", %error, "no random token");
            return unavailable(&idempotency, &label, None);
        }
    };
    // An expression that finds nobody leaves the caller to be told apart by credentials, as if there were none.
    let scope = scope.flatten();
    let claim = Claim {
        id: RecordId::derive(idempotency.namespace(), &operation, scope.as_deref(), &key),
        token,
        fingerprint: fingerprint(&policy, &head, scope.is_some()),
        older_fingerprints: Vec::new(),
        hold: policy.unknown == Unknown::Hold,
        lease: Duration::from_millis(policy.lease_ms),
        ttl: Duration::from_millis(policy.ttl_ms),
        waiting: false,
    };
    let (id, fingerprint, lease) = (claim.id, claim.fingerprint, claim.lease);
    let wait = Duration::from_millis(policy.wait_ms);
    let job = Box::new(Job { claim, operation: Arc::clone(&label), wait, attempt: head.attempt, work });
    let problem: Problem = match idempotency.engine().guard(job).await {
        Verdict::Ran(response) => return response,
        Verdict::Panicked(payload) => resume_unwind(payload),
        Verdict::Replay { outcome, waited } => match replay::response(outcome, &idempotency) {
            Ok(response) => {
                let outcome = if waited { Outcome::Waited } else { Outcome::Replayed };
                telemetry::outcome(outcome, &label, Some(&id));
                return response;
            }
            Err(corrupt) => {
                idempotency.engine().doubt(&id);
                telemetry::store_failed("replay", &id, &corrupt);
                return unavailable(&idempotency, &label, Some(&id));
            }
        },
        Verdict::Mismatch { stored } => KeyReused { difference: fingerprint.difference(&stored) }.into(),
        Verdict::InProgress { lease_left } => {
            InProgress { retry_after: lease_left.unwrap_or(Duration::from_secs(1)) }.into()
        }
        Verdict::Unknown => OutcomeUnknown {}.into(),
        Verdict::LeaseLost => LeaseLost { lease }.into(),
        Verdict::NotCommitted(error) => return not_committed(&error, &policy, &idempotency),
        // Without the store there is no transaction to run in either.
        Verdict::Unavailable(StoreError::Fault(_), work) if policy.outage == Outage::Run && transactions == 0 => {
            telemetry::outcome(Outcome::Unprotected, &label, Some(&id));
            return work.future.await;
        }
        Verdict::Unavailable(..) => return unavailable(&idempotency, &label, Some(&id)),
    };
    problem.respond(idempotency.problem_base())
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

fn not_transactional(policy: &Policy, why: NoTransaction, idempotency: &Idempotency) -> Response {
    let problem = NotTransactional { handler: policy.handler, why };
    tracing::error!(target: "idem", "{problem}");
    Problem::from(problem).respond(idempotency.problem_base())
}

fn not_committed(error: &NotCommitted, policy: &Policy, idempotency: &Idempotency) -> Response {
    let problem: Problem = match error {
        NotCommitted::RolledBack(_) => RolledBack {}.into(),
        NotCommitted::Refused(_) => CommitRefused {}.into(),
        NotCommitted::Ended => return not_transactional(policy, NoTransaction::Ended, idempotency),
        NotCommitted::Unknown(_) => CommitUnknown {}.into(),
    };
    problem.respond(idempotency.problem_base())
}

/// Runs a handler whose request is not guarded; its transaction, where it takes one, has no record.
async fn unrecorded<F>(work: Handler<F>, head: &Head) -> Response
where
    F: Future<Output = Response> + Send + 'static,
{
    if head.attempt.handover().asked() == 0 {
        return work.future.await;
    }
    let (policy, idempotency) = (work.policy, work.idempotency.clone());
    let idle = Duration::from_millis(policy.lease_ms);
    match idempotency.engine().transact_unrecorded(work, Arc::clone(&head.attempt), idle).await {
        Verdict::Ran(response) => response,
        Verdict::Panicked(payload) => resume_unwind(payload),
        Verdict::NotCommitted(error) => not_committed(&error, &policy, &idempotency),
        Verdict::Unavailable(error, _) => {
            tracing::error!(target: "idem", error = %error, "no transaction could be begun");
            Problem::from(StoreUnavailable {}).respond(idempotency.problem_base())
        }
        // Without a claim there is nobody to be refused by.
        _ => Problem::from(StoreUnavailable {}).respond(idempotency.problem_base()),
    }
}

/// What metrics and events call the operation.
pub(super) fn label_of(policy: &Policy, method: &Method, route: Option<&MatchedPath>) -> Arc<str> {
    match policy.operation {
        Some(name) if policy.door.is_empty() => name.into(),
        Some(name) => format!("{}{name}", policy.door).into(),
        None => format!("{}{}", policy.door, label(method, route)).into(),
    }
}

fn unavailable(idempotency: &Idempotency, label: &Arc<str>, record: Option<&RecordId>) -> Response {
    telemetry::outcome(Outcome::StoreError, label, record);
    Problem::from(StoreUnavailable {}).respond(idempotency.problem_base())
}

/// The key's bytes; `None` where it is optional and absent.
fn find_key<'a>(policy: &Policy, head: &'a Head, expression: Option<Value>) -> Result<Option<Cow<'a, [u8]>>, Problem> {
    match (&head.key, expression) {
        (KeySource::Headers(headers), _) => {
            let key = read_key(headers, policy.header, policy.optional)?;
            Ok(key.map(|key| key.as_bytes().to_vec().into()))
        }
        (KeySource::Read(key), _) => Ok(key.as_ref().map(|key| key.as_bytes().into())),
        (_, Some(Some(key))) if key.is_empty() => Err(KeyInvalid { header: None, reason: "the key is empty" }.into()),
        (_, Some(Some(key))) => Ok(Some(key.into())),
        (_, Some(None) | None) => Err(KeyMissing { header: None }.into()),
    }
}

fn fingerprint(policy: &Policy, head: &Head, scoped: bool) -> Fingerprint {
    let credentials: Vec<_> = if scoped {
        Vec::new()
    } else {
        head.credentials.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
    };
    Fingerprint::of(&Parts {
        path: head.uri.path(),
        query: head.uri.query(),
        credentials: &credentials,
        content_type: head.content_type.as_ref().map(http::HeaderValue::as_bytes),
        body: &head.body,
        mode: policy.fingerprint,
    })
}
