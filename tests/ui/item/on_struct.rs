// One error that says where the attribute belongs.
#![allow(unused)]

use idem_runtime::idempotent;

#[idempotent(ttl = "24h")]
struct Unit;

fn main() {}
