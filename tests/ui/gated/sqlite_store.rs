// The compiler names the feature.
use idem_runtime::store::SqliteStore;

fn main() {
    let _: Option<SqliteStore> = None;
}
