// The compiler names the feature.
use idem_runtime::store::PostgresStore;

fn main() {
    let _: Option<PostgresStore> = None;
}
