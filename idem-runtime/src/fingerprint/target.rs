//! The digest of a request's target, and where every fingerprint begins.

use std::cell::RefCell;

use sha2::{Digest as _, Sha256};

use super::{digest::Sink, form};

/// The longest path that is remembered.
const LONGEST: usize = 256;

/// A path without a query, and what follows from it alone.
struct Known {
    method: String,
    path: String,
    digest: [u8; 32],
    /// Has taken `digest` and no credentials.
    begun: Sha256,
}

thread_local! {
    /// The latest path: most requests are to a few, and two blocks of a small one's five are the same for all of them.
    static LATEST: RefCell<Option<Known>> = const { RefCell::new(None) };
}

/// The target's digest, and a hash that has taken it and then `credentials`.
pub(super) fn begin(method: &str, path: &str, query: Option<&str>, credentials: &[u8; 32]) -> ([u8; 32], Sha256) {
    let query = query.filter(|query| !query.is_empty());
    if query.is_some() || path.len() > LONGEST || method.len() > LONGEST {
        let digest = digest(method, path, query);
        return (digest, begun(&digest, credentials));
    }
    LATEST.with_borrow_mut(|latest| {
        let known = match latest {
            Some(known) if known.path == path && known.method == method => known,
            other => {
                let digest = digest(method, path, None);
                let (method, path) = (method.to_owned(), path.to_owned());
                other.insert(Known { method, path, digest, begun: begun(&digest, &[0; 32]) })
            }
        };
        let begun = if *credentials == [0; 32] { known.begun.clone() } else { begun(&known.digest, credentials) };
        (known.digest, begun)
    })
}

fn digest(method: &str, path: &str, query: Option<&str>) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.framed(method.as_bytes());
    digest.framed(path.as_bytes());
    if let Some(query) = query {
        form::write(query.as_bytes(), &mut digest);
    }
    digest.finalize().into()
}

fn begun(target: &[u8; 32], credentials: &[u8; 32]) -> Sha256 {
    let mut digest = Sha256::new();
    digest.put(target);
    digest.put(credentials);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_is_computed() {
        let credentials = [[0; 32], [7; 32]];
        let long = "/".repeat(LONGEST + 1);
        for (method, path) in
            [("POST", "/a"), ("POST", "/a"), ("PUT", "/a"), ("POST", "/b"), ("POST", "/a"), ("", ""), ("POST", &long)]
        {
            for (query, credentials) in [(None, credentials[0]), (Some("x=1"), credentials[0]), (None, credentials[1])]
            {
                let (target, hash) = begin(method, path, query, &credentials);
                assert_eq!(target, digest(method, path, query));
                assert_eq!(hash.finalize(), begun(&target, &credentials).finalize());
            }
        }
    }
}
