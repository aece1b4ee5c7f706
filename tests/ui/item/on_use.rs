// One error that says where the attribute belongs.
#![allow(unused)]

use idem_runtime::idempotent;

#[idempotent(ttl = "24h")]
use std::sync::Arc;

fn main() {}
