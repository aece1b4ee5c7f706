// The compiler names the feature.
use idem_runtime::store::RedisStore;

fn main() {
    let _: Option<RedisStore> = None;
}
