// A URL whose store is off is an error that names its feature, and shows no more of the URL than its scheme.
use idem_runtime::Idempotency;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    for (url, feature) in [
        ("redis://:secret@127.0.0.1:6379", "redis"),
        ("redis+cluster://:secret@127.0.0.1:6379", "redis-cluster"),
        ("postgres://secret@127.0.0.1/db", "postgres"),
        ("sqlite:./secret.db", "sqlite"),
    ] {
        let error = Idempotency::connect(url).await.err().expect(url).to_string();
        assert!(error.contains(&format!("features = [\"{feature}\"]")), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
