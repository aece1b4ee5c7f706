//! What a store is asked to do.

use std::time::Duration;

use bytes::Bytes;
use idem_runtime::store::{Ack, Claim, Claimed, Completion, Fingerprint, RecordId, Store, Token};

/// An answer as the application stores it: status, content type and 92 bytes of JSON.
pub(crate) const OUTCOME: &[u8] = &[b'x'; 128];

pub(crate) fn claim(id: RecordId) -> Claim {
    let mut token = [0; 16];
    getrandom::fill(&mut token).unwrap();
    Claim {
        id,
        token: Token::from_bytes(token),
        fingerprint: Fingerprint::from_bytes([1; Fingerprint::LENGTH]),
        older_fingerprints: Vec::new(),
        hold: false,
        lease: Duration::from_secs(30),
        ttl: Duration::from_hours(1),
        waiting: false,
    }
}

pub(crate) fn fresh() -> RecordId {
    let mut id = [0; 32];
    getrandom::fill(&mut id).unwrap();
    RecordId::from_bytes(id)
}

/// Claims and completes.
pub(crate) async fn run_once(store: &impl Store, id: RecordId) {
    let claim = claim(id);
    let Ok(Claimed::Owner { epoch, attempt }) = store.claim(&claim).await else { panic!("not the owner") };
    let Claim { id, token, fingerprint, ttl, .. } = claim;
    let outcome = Bytes::from_static(OUTCOME);
    let completion = Completion { id, token, epoch, attempt, fingerprint, ttl, outcome };
    assert_eq!(store.complete(&completion).await.unwrap(), Ack::Done);
}

pub(crate) async fn replay(store: &impl Store, id: RecordId) {
    assert!(matches!(store.claim(&claim(id)).await, Ok(Claimed::Replay { .. })));
}
