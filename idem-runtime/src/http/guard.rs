//! One request through the engine and back.

use std::{borrow::Cow, panic::resume_unwind, sync::Arc, time::Duration};

use axum::{extract::MatchedPath, response::Response};
use http::Method;

use super::{
    capture,
    extract::{Head, KeySource, Value, label, operation_name, read_key, refuse},
    key::Key,
    problem::{
        InProgress, KeyInvalid, KeyMissing, KeyReused, LeaseLost, NotInstalled, OutcomeUnknown, Problem,
        StoreUnavailable,
    },
    replay,
};
use crate::{
    Idempotency,
    engine::{self, Answer, Job, Verdict, Work},
    fingerprint::{Fingerprint, Parts},
    policy::{Outage, Policy, Unknown},
    protocol::{Claim, RecordId},
    store::StoreError,
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
}

/// Guards one call of a handler.
pub(crate) async fn guard<F>(policy: Policy, mut head: Head, handler: F) -> Response
where
    F: Future<Output = Response> + Send + 'static,
{
    let Some(idempotency) = head.idempotency.clone() else {
        let problem = NotInstalled { module: policy.module, handler: policy.handler };
        tracing::error!(target: "idem", "{problem}");
        return Problem::from(problem).respond(Idempotency::PROBLEM_BASE);
    };
    if matches!(head.key, KeySource::Ignored) {
        return handler.await;
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
            return handler.await;
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
    let work = Handler { future: handler, policy, idempotency: idempotency.clone() };
    let wait = Duration::from_millis(policy.wait_ms);
    let job = Job { claim, operation: Arc::clone(&label), wait, attempt: head.attempt, work };
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
        Verdict::Unavailable(StoreError::Fault(_), work) if policy.outage == Outage::Run => {
            telemetry::outcome(Outcome::Unprotected, &label, Some(&id));
            return work.future.await;
        }
        Verdict::Unavailable(..) => return unavailable(&idempotency, &label, Some(&id)),
    };
    problem.respond(idempotency.problem_base())
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
fn find_key(policy: &Policy, head: &Head, expression: Option<Value>) -> Result<Option<Vec<u8>>, Problem> {
    let bytes = |key: &Key| key.as_bytes().to_vec();
    match (&head.key, expression) {
        (KeySource::Headers(headers), _) => Ok(read_key(headers, policy.header, policy.optional)?.as_ref().map(bytes)),
        (KeySource::Read(key), _) => Ok(key.as_ref().map(bytes)),
        (_, Some(Some(key))) if key.is_empty() => Err(KeyInvalid { header: None, reason: "the key is empty" }.into()),
        (_, Some(Some(key))) => Ok(Some(key)),
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
