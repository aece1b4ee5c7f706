//! A multipart body is the same under another boundary, and another one with other contents.
#![no_main]

#[allow(dead_code)]
#[path = "shared.rs"]
mod shared;
pub use shared::{fingerprint, policy};

use fingerprint::Fingerprint;
use libfuzzer_sys::fuzz_target;

fn spell(boundary: &str, parts: &[&[u8]]) -> Fingerprint {
    let mut body = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        body.extend_from_slice(format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{at}\"\r\n\r\n").as_bytes());
        body.extend_from_slice(part);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    shared::of(&format!("multipart/form-data; boundary={boundary}"), &body)
}

fuzz_target!(|input: (&[u8], Vec<&[u8]>)| {
    let (raw, parts) = input;
    shared::of("multipart/form-data; boundary=a", raw);
    shared::of("multipart/form-data; boundary=a", &[b"--a\r\n", raw, b"\r\n--a--"].concat());

    let (one, other) = ("first-boundary", "another");
    let holds = |boundary: &str| parts.iter().any(|part| part.windows(boundary.len()).any(|at| at == boundary.as_bytes()));
    if !holds(one) && !holds(other) {
        let first = spell(one, &parts);
        assert!(first == spell(other, &parts));
        let longer: Vec<Vec<u8>> = parts.iter().map(|part| [part, b"x".as_slice()].concat()).collect();
        let longer: Vec<&[u8]> = longer.iter().map(Vec::as_slice).collect();
        assert!(parts.is_empty() || first != spell(one, &longer));
        assert!(first != spell(one, &[parts.as_slice(), &[b"x"]].concat()));
    }
});
