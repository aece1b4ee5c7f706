// The compiler names the feature.
use idem_runtime::idempotent;

#[idempotent(ttl = "24h")]
async fn create() {}

fn main() {}
