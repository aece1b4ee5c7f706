// One error that says where the attribute belongs.
#![allow(unused)]

use idem_runtime::idempotent;

struct App;

#[idempotent(ttl = "24h")]
impl App {
    fn nothing() {}
}

fn main() {}
