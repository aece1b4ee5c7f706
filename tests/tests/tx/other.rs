//! A store of somebody else's that has transactions to share.

use std::{
    any::Any,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::{FromRef, FromRequestParts},
    http::{StatusCode, request::Parts},
    routing::post,
};
use idem_runtime::{
    Idempotency,
    http::Loan,
    idempotent,
    store::{
        Ack, Begun, Claim, Claimed, Completion, MemoryStore, NotCommitted, OpenTransaction, Promise, PurgeLimits,
        Purged, Record, RecordId, Store, StoreError, Token, Transactional,
    },
};
use idem_tests::server::{Answer, Server};

use crate::app::refused;

/// Lines that are written all or none, with their record.
#[derive(Clone, Default)]
struct Journal(Arc<(MemoryStore, Mutex<Vec<String>>)>);

impl Store for Journal {
    fn name(&self) -> &'static str {
        "journal"
    }
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.0.0.claim(claim).await
    }
    async fn renew(&self, id: &RecordId, token: &Token, lease: Duration) -> Result<Ack, StoreError> {
        self.0.0.renew(id, token, lease).await
    }
    async fn complete(&self, completion: &Completion) -> Result<Ack, StoreError> {
        self.0.0.complete(completion).await
    }
    async fn release(&self, id: &RecordId, token: &Token) -> Result<Ack, StoreError> {
        self.0.0.release(id, token).await
    }
    async fn hold(&self, id: &RecordId, token: &Token, ttl: Duration) -> Result<Ack, StoreError> {
        self.0.0.hold(id, token, ttl).await
    }
    async fn get(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        self.0.0.get(id).await
    }
    async fn forget(&self, id: &RecordId) -> Result<bool, StoreError> {
        self.0.0.forget(id).await
    }
    async fn purge(&self, limits: PurgeLimits) -> Result<Purged, StoreError> {
        self.0.0.purge(limits).await
    }
    fn transactional(&self) -> Option<&dyn Transactional> {
        Some(self)
    }
}

impl Transactional for Journal {
    fn begin<'a>(&'a self, claim: Option<&'a Claim>, _: Duration) -> Promise<'a, Result<Begun, StoreError>> {
        Box::pin(async move {
            let claim = claim.expect("the test has no unguarded requests");
            Ok(match self.0.0.claim(claim).await? {
                Claimed::Owner { epoch, attempt } => {
                    let transaction = Box::new(Page { journal: self.clone(), claim: claim.clone(), lines: Vec::new() });
                    Begun::Open { epoch, attempt, transaction }
                }
                other => Begun::Refused(other),
            })
        })
    }
}

struct Page {
    journal: Journal,
    claim: Claim,
    lines: Vec<String>,
}

impl OpenTransaction for Page {
    fn commit(self: Box<Self>, completion: Option<Completion>) -> Promise<'static, Result<(), NotCommitted>> {
        Box::pin(async move {
            if self.lines.iter().any(|line| line == "refuse") {
                assert_eq!(self.journal.release(&self.claim.id, &self.claim.token).await.unwrap(), Ack::Done);
                return Err(NotCommitted::Refused("a line that can't be written".into()));
            }
            self.journal.0.1.lock().unwrap().extend(self.lines);
            let ack = self.journal.complete(&completion.unwrap()).await.unwrap();
            assert_eq!(ack, Ack::Done);
            Ok(())
        })
    }

    fn rollback(self: Box<Self>) -> Promise<'static, bool> {
        Box::pin(async move {
            assert_eq!(self.journal.release(&self.claim.id, &self.claim.token).await.unwrap(), Ack::Done);
            false
        })
    }
}

/// The handler's parameter.
struct Lines(Loan);

impl<S: Sync> FromRequestParts<S> for Lines {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        Loan::from_request_parts(parts, state).await.map(Self)
    }
}

impl Lines {
    fn write(&self, line: &str) {
        let page: Box<dyn Any> = self.0.take().expect("a transaction");
        let mut page: Box<Page> = page.downcast().expect("the journal's own");
        page.lines.push(line.to_owned());
        self.0.give_back(page);
    }
}

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency,
}

#[idempotent(ttl = "24h")]
async fn write(lines: Lines, body: String) -> (StatusCode, String) {
    for line in body.lines() {
        lines.write(line);
    }
    let status = if body.contains("wrong") { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::CREATED };
    (status, body)
}

#[tokio::test]
async fn a_store_of_ones_own_shares_its_transactions() {
    let journal = Journal::default();
    let app = App { idempotency: Idempotency::new(journal.clone()) };
    let service = Server::start(Router::new().route("/write", post(write)).with_state(app)).await;
    let send = async |key: &str, body: &'static str| Answer::to(service.post("/write", key).body(body)).await;

    assert_eq!(send("k1", "one\ntwo").await.status, 201);
    assert!(send("k1", "one\ntwo").await.is_replay());
    refused(&send("k1", "other").await, 422, "idempotency_key_reused", None);
    assert_eq!(send("k2", "half\nwrong").await.status, 422);
    assert!(send("k2", "half\nwrong").await.is_replay());
    for _ in 0..2 {
        refused(&send("k3", "three\nrefuse").await, 500, "idempotency_commit_refused", None);
    }
    assert_eq!(*journal.0.1.lock().unwrap(), ["one", "two"]);
}
