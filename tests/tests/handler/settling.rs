//! Which answers are kept, and what follows the others.

use idem_runtime::Idempotency;
use idem_tests::server::Answer;

use crate::app::{Test, start};

/// Sends the same request twice, with these two answers waiting; whether the second was a replay.
async fn twice(test: &Test, path: &str, status: u16) -> bool {
    test.ledger.answer_with(&[status, 200]);
    let key = format!("k{}", test.ledger.runs());
    let first = Answer::to(test.server.post(path, &key)).await;
    assert_eq!(first.status, status, "the first caller has the handler's own answer");
    let second = Answer::to(test.server.post(path, &key)).await;
    if second.is_replay() {
        assert_eq!((second.status, second.body), (status, first.body));
        return true;
    }
    assert_eq!(second.status, 200, "{path} {status}");
    false
}

/// T1, T2, P5, K22, K24.
#[tokio::test]
async fn each_record_policy_keeps_its_statuses() {
    let test = start().await;
    let statuses = [200, 201, 202, 204, 303, 400, 402, 404, 406, 422, 401, 403, 408, 409, 425, 429, 500, 502, 503];
    for (at, status) in statuses.into_iter().enumerate() {
        assert_eq!(twice(&test, "/deterministic", status).await, at < 10, "deterministic {status}");
        assert_eq!(twice(&test, "/success", status).await, at < 4, "success {status}");
        assert!(twice(&test, "/all", status).await, "all {status}");
    }
}

/// T3: with `hold` nobody runs again after a 5xx or a panic until someone decided.
#[tokio::test]
async fn hold_refuses_after_a_server_error_until_forgotten() {
    let test = start().await;
    for (key, status) in [("k1", 502), ("k2", 418)] {
        test.ledger.answer_with(&[status]);
        let request = test.server.post("/held", key);
        assert_eq!(request.send().await.map_or(418, |answer| answer.status().as_u16()), status, "418 panics");
        let runs = test.ledger.runs();
        for _ in 0..2 {
            let refused = Answer::to(test.server.post("/held", key)).await;
            assert_eq!((refused.status, refused.problem().as_str()), (409, "idempotency_outcome_unknown"));
            assert!(!refused.headers.contains_key("retry-after"));
        }
        assert_eq!(
            Answer::to(test.server.post("/held?other", key)).await.status,
            422,
            "another request is still told so"
        );
        assert_eq!(test.ledger.runs(), runs);
        assert!(test.idempotency.forget("POST /held", &Idempotency::NO_SCOPE, key).await.unwrap());
        assert_eq!(Answer::to(test.server.post("/held", key)).await.status, 200);
    }
    test.ledger.answer_with(&[429]);
    assert_eq!(Answer::to(test.server.post("/held", "k3")).await.status, 429);
    assert_eq!(Answer::to(test.server.post("/held", "k3")).await.status, 200, "a 429 is no unknown outcome");
}

/// T4: one answer may decide otherwise than the policy.
#[tokio::test]
async fn an_answer_can_decide_for_itself() {
    let test = start().await;
    assert!(twice(&test, "/overriding/keep", 503).await);
    assert!(!twice(&test, "/overriding/release", 201).await);
    test.ledger.answer_with(&[201]);
    assert_eq!(Answer::to(test.server.post("/overriding/hold", "h")).await.status, 201);
    assert_eq!(Answer::to(test.server.post("/overriding/hold", "h")).await.problem(), "idempotency_outcome_unknown");
}
