//! A JSON document and what serde_json writes of it are the same; no text is the same as its neighbours.
#![no_main]

#[allow(dead_code)]
#[path = "shared.rs"]
mod shared;
pub use shared::{fingerprint, policy};

use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// Whether serde_json keeps every number as it was: integers, that is.
fn exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_i64() || number.is_u64(),
        Value::Array(values) => values.iter().all(exact),
        Value::Object(members) => members.values().all(exact),
        _ => true,
    }
}

fuzz_target!(|body: &[u8]| {
    let json = |body: &[u8]| shared::of("application/json", body);
    shared::all_modes("application/json", body);
    let ours = json(body);
    assert!(ours != json(&[body, b"x"].concat()));
    let spaced = json(&[b" ", body].concat());
    match serde_json::from_slice::<Value>(body) {
        // Space around a document doesn't count, so where it does, the body was taken by its bytes: a repeated name.
        Ok(value) if ours == spaced => {
            if exact(&value) {
                assert!(ours == json(value.to_string().as_bytes()));
                assert!(ours == json(serde_json::to_string_pretty(&value).unwrap_or_default().as_bytes()));
            }
            assert!(ours != json(format!("[{value}]").as_bytes()));
        }
        Ok(_) => {}
        Err(error) if error.to_string().starts_with("number out of range") => {}
        // Its recursion ends one level before ours.
        Err(error) if error.to_string().starts_with("recursion limit") => {}
        Err(_) => assert!(ours != spaced),
    }
});
