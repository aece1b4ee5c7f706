//! The sqlite store.

use idem_runtime::store::{SqliteStore, conformance};

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    conformance::run(SqliteStore::open(folder.path().join("idem.db")).unwrap()).await.unwrap();
}
