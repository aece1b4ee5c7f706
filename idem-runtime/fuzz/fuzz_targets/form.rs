//! A form is the same with all of its bytes escaped, and with its pairs sorted by name.
#![no_main]

#[allow(dead_code)]
#[path = "shared.rs"]
mod shared;
pub use shared::{fingerprint, policy};

use libfuzzer_sys::fuzz_target;

fn escape(text: &[u8]) -> String {
    text.iter().map(|byte| format!("%{byte:02X}")).collect()
}

fuzz_target!(|pairs: Vec<(&[u8], &[u8])>| {
    let form = |text: &str| shared::of("application/x-www-form-urlencoded", text.as_bytes());
    let spell = |pairs: &[(&[u8], &[u8])]| {
        pairs.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect::<Vec<_>>().join("&")
    };
    let text = spell(&pairs);
    let mut sorted = pairs.clone();
    // The order of a list's pairs counts.
    if !pairs.iter().any(|(name, _)| name.windows(2).any(|two| two == b"[]")) {
        sorted.sort_by_key(|(name, _)| *name);
    }
    assert!(form(&text) == form(&spell(&sorted)));
    assert!(form(&text) == form(&text.to_lowercase()));
    assert!(form(&text) == form(&format!("&{text}&")));
    assert!(form(&text) != form(&format!("{text}&x=1")));
    assert!(form(&text) != form(&format!("{text}%00")) || pairs.is_empty());
    // Text that nobody escaped is read too.
    for (name, value) in pairs {
        shared::of("application/x-www-form-urlencoded", name);
        shared::of("application/x-www-form-urlencoded", value);
    }
});
