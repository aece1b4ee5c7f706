//! The object-safe twin of [`Store`].

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use super::{
    Ack, Claim, Claimed, Completion, Immediate, PurgeLimits, Purged, Record, RecordId, Store, StoreError, Token,
    Transactional, Wakeups,
};

type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// [`Store`] with boxed futures, so that it can be a `dyn`. Every store is one; implement [`Store`], not this.
pub trait DynStore: Send + Sync + 'static {
    #[doc(hidden)]
    fn dyn_name(&self) -> &'static str;
    #[doc(hidden)]
    fn dyn_claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claimed>;
    #[doc(hidden)]
    fn dyn_renew<'a>(&'a self, id: &'a RecordId, token: &'a Token, lease: Duration) -> Reply<'a, Ack>;
    #[doc(hidden)]
    fn dyn_complete<'a>(&'a self, completion: &'a Completion) -> Reply<'a, Ack>;
    #[doc(hidden)]
    fn dyn_release<'a>(&'a self, id: &'a RecordId, token: &'a Token) -> Reply<'a, Ack>;
    #[doc(hidden)]
    fn dyn_hold<'a>(&'a self, id: &'a RecordId, token: &'a Token, ttl: Duration) -> Reply<'a, Ack>;
    #[doc(hidden)]
    fn dyn_get<'a>(&'a self, id: &'a RecordId) -> Reply<'a, Option<Record>>;
    #[doc(hidden)]
    fn dyn_forget<'a>(&'a self, id: &'a RecordId) -> Reply<'a, bool>;
    #[doc(hidden)]
    fn dyn_purge(&self, limits: PurgeLimits) -> Reply<'_, Purged>;
    #[doc(hidden)]
    fn dyn_listen(&self, wakeups: Wakeups);
    #[doc(hidden)]
    fn dyn_immediate(&self) -> Option<&dyn Immediate>;
    #[doc(hidden)]
    fn dyn_transactional(&self) -> Option<&dyn Transactional>;
}

impl<S: Store> DynStore for S {
    fn dyn_name(&self) -> &'static str {
        self.name()
    }
    fn dyn_claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claimed> {
        Box::pin(self.claim(claim))
    }
    fn dyn_renew<'a>(&'a self, id: &'a RecordId, token: &'a Token, lease: Duration) -> Reply<'a, Ack> {
        Box::pin(self.renew(id, token, lease))
    }
    fn dyn_complete<'a>(&'a self, completion: &'a Completion) -> Reply<'a, Ack> {
        Box::pin(self.complete(completion))
    }
    fn dyn_release<'a>(&'a self, id: &'a RecordId, token: &'a Token) -> Reply<'a, Ack> {
        Box::pin(self.release(id, token))
    }
    fn dyn_hold<'a>(&'a self, id: &'a RecordId, token: &'a Token, ttl: Duration) -> Reply<'a, Ack> {
        Box::pin(self.hold(id, token, ttl))
    }
    fn dyn_get<'a>(&'a self, id: &'a RecordId) -> Reply<'a, Option<Record>> {
        Box::pin(self.get(id))
    }
    fn dyn_forget<'a>(&'a self, id: &'a RecordId) -> Reply<'a, bool> {
        Box::pin(self.forget(id))
    }
    fn dyn_purge(&self, limits: PurgeLimits) -> Reply<'_, Purged> {
        Box::pin(self.purge(limits))
    }
    fn dyn_listen(&self, wakeups: Wakeups) {
        self.listen(wakeups);
    }
    fn dyn_immediate(&self) -> Option<&dyn Immediate> {
        self.immediate()
    }
    fn dyn_transactional(&self) -> Option<&dyn Transactional> {
        self.transactional()
    }
}

/// A shared store is a store, erased (`Arc<dyn DynStore>`) or not.
// The whole trait is forwarded: a verb left to its default would bypass the store's own.
#[deny(clippy::missing_trait_methods)]
impl<S: DynStore + ?Sized> Store for Arc<S> {
    fn name(&self) -> &'static str {
        (**self).dyn_name()
    }
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        (**self).dyn_claim(claim).await
    }
    async fn renew(&self, id: &RecordId, token: &Token, lease: Duration) -> Result<Ack, StoreError> {
        (**self).dyn_renew(id, token, lease).await
    }
    async fn complete(&self, completion: &Completion) -> Result<Ack, StoreError> {
        (**self).dyn_complete(completion).await
    }
    async fn release(&self, id: &RecordId, token: &Token) -> Result<Ack, StoreError> {
        (**self).dyn_release(id, token).await
    }
    async fn hold(&self, id: &RecordId, token: &Token, ttl: Duration) -> Result<Ack, StoreError> {
        (**self).dyn_hold(id, token, ttl).await
    }
    async fn get(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        (**self).dyn_get(id).await
    }
    async fn forget(&self, id: &RecordId) -> Result<bool, StoreError> {
        (**self).dyn_forget(id).await
    }
    async fn purge(&self, limits: PurgeLimits) -> Result<Purged, StoreError> {
        (**self).dyn_purge(limits).await
    }
    fn listen(&self, wakeups: Wakeups) {
        (**self).dyn_listen(wakeups);
    }
    fn immediate(&self) -> Option<&dyn Immediate> {
        (**self).dyn_immediate()
    }
    fn transactional(&self) -> Option<&dyn Transactional> {
        (**self).dyn_transactional()
    }
}
