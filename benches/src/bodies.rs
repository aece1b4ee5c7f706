//! Bodies of any size and type to fingerprint.

use std::fmt::Write as _;

/// A type, and what to do to make a body of about so many bytes.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// For tables.
    pub name: &'static str,
    /// Its `Content-Type`.
    pub content_type: &'static str,
    make: fn(usize) -> String,
}

impl Kind {
    /// A body of `bytes` at least.
    pub fn body(&self, bytes: usize) -> Vec<u8> {
        (self.make)(bytes).into_bytes()
    }
}

/// Every type that has a canonical form, and one that has none.
pub const KINDS: [Kind; 6] = [
    Kind { name: "json", content_type: "application/json", make: |bytes| json(bytes, &MEMBERS) },
    Kind { name: "json, members reversed", content_type: "application/json", make: |bytes| json(bytes, &reversed()) },
    Kind { name: "json, indented", content_type: "application/json", make: |bytes| indented(&json(bytes, &MEMBERS)) },
    Kind { name: "form", content_type: "application/x-www-form-urlencoded", make: form },
    Kind { name: "multipart", content_type: "multipart/form-data; boundary=xyz", make: multipart },
    Kind { name: "raw", content_type: "application/octet-stream", make: |bytes| "x".repeat(bytes) },
];

const MEMBERS: [(&str, &str); 6] = [
    ("amount", "129900"),
    ("country", "\"AT\""),
    ("currency", "\"eur\""),
    ("description", "\"two tickets, row 7, seats 3 and 4\""),
    ("live", "true"),
    ("reference", "\"order 2026-000042\""),
];

fn reversed() -> [(&'static str, &'static str); 6] {
    let mut members = MEMBERS;
    members.reverse();
    members
}

fn json(bytes: usize, members: &[(&str, &str)]) -> String {
    let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    let object = format!("{{{}}}", members.join(","));
    if bytes <= object.len() {
        return object;
    }
    let objects = vec![object.as_str(); bytes / (object.len() + 1) + 1];
    format!("[{}]", objects.join(","))
}

fn indented(json: &str) -> String {
    json.replace("\":", "\": ").replace(",\"", ",\n    \"").replace('{', "{\n    ").replace('}', "\n  }")
}

fn form(bytes: usize) -> String {
    let mut form = String::new();
    for number in (0..).take_while(|number| number * 48 < bytes) {
        let _ = write!(form, "items%5B{number}%5D=two+tickets%2C+row+7&amount{number}=129900&");
    }
    form
}

fn multipart(bytes: usize) -> String {
    let content = "x".repeat(bytes / 2);
    let part = format!("--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{content}\r\n");
    format!("{part}{part}--xyz--\r\n")
}
