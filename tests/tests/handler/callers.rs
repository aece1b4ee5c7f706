//! Who is calling: nobody sees another caller's answer.

use idem_runtime::{Idempotency, store::MemoryStore};
use idem_tests::server::Answer;

use crate::app::{Test, start, start_with};

async fn call(test: &Test, path: &str, user: &str) -> Answer {
    Answer::to(test.server.post(path, "k1").bearer_auth(user)).await
}

/// Without a scope another credential is another request.
#[tokio::test]
async fn another_caller_is_refused_without_a_scope() {
    let test = start().await;
    assert_eq!(call(&test, "/private", "ann").await.text(), "1 belongs to ann");
    let other = call(&test, "/private", "bob").await;
    assert_eq!(other.problem(), "idempotency_key_reused");
    assert!(other.text().contains("credentials") && other.text().contains("scope") && !other.text().contains("ann"));
    assert!(call(&test, "/private", "ann").await.is_replay());
}

/// With a scope two callers never meet.
#[tokio::test]
async fn another_caller_has_records_of_its_own_with_a_scope() {
    let test = start().await;
    assert_eq!(call(&test, "/scoped", "ann").await.text(), "1 belongs to ann");
    assert_eq!(call(&test, "/scoped", "bob").await.text(), "2 belongs to bob");
    assert_eq!(call(&test, "/scoped", "ann").await.text(), "1 belongs to ann");
}

#[tokio::test]
async fn with_a_scope_other_credentials_change_nothing() {
    let test = start().await;
    let send = |cookie: &'static str| {
        Answer::to(
            test.server.post("/scoped", "k1").bearer_auth("ann").header("cookie", cookie).header("x-api-key", cookie),
        )
    };
    assert_eq!(send("a=1").await.status, 200);
    assert!(send("a=2").await.is_replay());
}

/// S7: extractors run on replays too.
#[tokio::test]
async fn a_revoked_caller_gets_no_replay() {
    let test = start().await;
    assert_eq!(call(&test, "/scoped", "ann").await.status, 200);
    assert!(call(&test, "/scoped", "ann").await.is_replay());
    test.ledger.revoke("ann");
    let refused = call(&test, "/scoped", "ann").await;
    assert_eq!((refused.status, refused.text().as_str()), (401, ""));
}

/// A 401 from an extractor burns no key.
#[tokio::test]
async fn an_unauthenticated_request_claims_nothing() {
    let test = start().await;
    assert_eq!(Answer::to(test.server.post("/scoped", "k1")).await.status, 401);
    assert_eq!(call(&test, "/scoped", "ann").await.text(), "1 belongs to ann");
}

/// S4: environments that share a store.
#[tokio::test]
async fn namespaces_keep_applications_apart() {
    let store = std::sync::Arc::new(MemoryStore::new());
    let build = |name: &'static str| Idempotency::builder(store.clone()).namespace(name).build();
    let (live, staging) = (start_with(build("live"), |r| r).await, start_with(build("staging"), |r| r).await);
    let other_live = start_with(build("live"), |r| r).await;
    for test in [&live, &staging] {
        assert!(!call(test, "/scoped", "ann").await.is_replay());
    }
    assert!(call(&other_live, "/scoped", "ann").await.is_replay());
}

#[tokio::test]
async fn forget_frees_a_key() {
    let test = start().await;
    call(&test, "/scoped", "ann").await;
    assert!(!test.idempotency.forget("POST /scoped", "bob", "k1").await.unwrap());
    assert!(test.idempotency.forget("POST /scoped", "ann", "k1").await.unwrap());
    assert_eq!(call(&test, "/scoped", "ann").await.text(), "2 belongs to ann");
}

/// A key from the handler's parameters is named as it was given.
#[tokio::test]
async fn forget_frees_a_key_of_several_parts() {
    let test = start().await;
    let send = async || Answer::to(test.server.keyless("/parts/7").body("e1")).await.status;
    assert_eq!((send().await, send().await), (500, 409));
    let forget = async |key| test.idempotency.forget("POST /parts/{shop}", Idempotency::NO_SCOPE, key).await.unwrap();
    assert!(!forget((8, "e1")).await);
    assert!(forget((7, "e1")).await);
    assert_eq!(send().await, 500);
    assert_eq!(test.ledger.runs(), 2);
}
