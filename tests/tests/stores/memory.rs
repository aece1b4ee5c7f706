//! The memory store.

use idem_runtime::store::{MemoryStore, conformance};

#[tokio::test]
async fn keeps_the_contract() {
    conformance::run(MemoryStore::new()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract_on_many_threads() {
    conformance::run(MemoryStore::new()).await.unwrap();
}
