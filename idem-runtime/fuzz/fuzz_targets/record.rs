//! Stored bytes are read or refused, never worse; what can be read comes back the same once written again.
#![no_main]

#[allow(dead_code)]
#[path = "../../src/record.rs"]
mod record;
/// The error's twin, which the decoder only makes.
pub mod store {
    #[derive(Debug)]
    pub struct CorruptRecord(pub &'static str);
    impl CorruptRecord {
        pub fn new(what: &'static str) -> Self {
            Self(what)
        }
    }
}

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use record::{Outcome, encode};

fuzz_target!(|bytes: &[u8]| {
    let read = match Outcome::decode(Bytes::copy_from_slice(bytes)) {
        Ok(read) => read,
        Err(error) => return assert!(!error.0.is_empty()),
    };
    let body = read.body.clone().map(|body| [body]);
    let body = body.as_ref().map(<[Bytes; 1]>::as_slice);
    let again = Outcome::decode(encode(read.status, read.headers.iter(), read.trailers.as_ref(), body)).expect("our own");
    assert_eq!(
        (again.status, again.headers, again.trailers, again.body),
        (read.status, read.headers, read.trailers, read.body)
    );
});
