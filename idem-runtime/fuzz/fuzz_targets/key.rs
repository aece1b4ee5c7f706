//! What the reference parser reads as a string is the same key here, and what it refuses in quotes is none.
#![no_main]

#[allow(dead_code)]
#[path = "../../src/http/key.rs"]
mod key;

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use sfv::{BareItem, Item, Parser};

fn reference(value: &[u8]) -> Option<String> {
    let item: Item = Parser::new(value).parse().ok()?;
    match item.bare_item {
        BareItem::String(string) => Some(string.as_str().to_owned()),
        _ => None,
    }
}

fn read(value: &[u8]) -> Option<Result<Vec<u8>, ()>> {
    let headers = HeaderMap::from_iter([(http::header::COOKIE, HeaderValue::from_bytes(value).ok()?)]);
    let key = key::read(&headers, "cookie").map_err(|error| assert!(!error.reason().is_empty()));
    Some(key.map(|key| key.expect("never absent").as_bytes().to_vec()))
}

fuzz_target!(|value: &[u8]| {
    let Some(ours) = read(value) else { return };
    match reference(value) {
        Some(string) if string.len() <= 255 && !string.trim().is_empty() => assert_eq!(ours, Ok(string.into_bytes())),
        Some(_) => assert_eq!(ours, Err(())),
        // The contents of a byte sequence are nobody's business here.
        None if value.trim_ascii().starts_with(b"\"") && !value.contains(&b':') => assert_eq!(ours, Err(())),
        None => {}
    }
    if let Ok(key) = ours {
        let text = String::from_utf8(key.clone()).expect("ASCII");
        let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        assert_eq!(read(quoted.as_bytes()), Some(Ok(key)));
    }
});
