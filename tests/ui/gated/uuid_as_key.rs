// The note names the feature.
use axum::Extension;
use idem_runtime::idempotent;
use uuid::Uuid;

#[idempotent(ttl = "24h", key = id, store = layer)]
async fn create(Extension(id): Extension<Uuid>) {
    drop(id);
}

fn main() {
    drop(axum::routing::post::<_, _, ()>(create));
}
