//! The fingerprint's own sources.

#[path = "../../src/fingerprint/mod.rs"]
pub mod fingerprint;
#[path = "../../src/policy.rs"]
pub mod policy;

use fingerprint::{Fingerprint, Parts};
use policy::{BodyFingerprint, Members};

/// The fingerprint of a body of this type.
pub fn of(content_type: &str, body: &[u8]) -> Fingerprint {
    with(content_type, body, BodyFingerprint::ByContentType)
}

/// Runs every way to read a body; they must end.
pub fn all_modes(content_type: &str, body: &[u8]) {
    let pointers: &[&str] = &["/a", "/0", "/a/b/1", ""];
    for members in [Members::All, Members::Skip(pointers), Members::Skip(&pointers[..3]), Members::Only(pointers)] {
        with(content_type, body, BodyFingerprint::Json(members));
    }
}

fn with(content_type: &str, body: &[u8], mode: BodyFingerprint) -> Fingerprint {
    let content_type = Some(content_type.as_bytes());
    Fingerprint::of(&Parts { method: "POST", path: "/", query: None, credentials: &[], content_type, body, mode })
}
