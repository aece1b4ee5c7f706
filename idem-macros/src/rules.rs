//! The rules of the options, in one wording for every door. `idem-runtime` links to this file.

use crate::duration::{format, format_up};

/// How soon a crashed attempt may be taken over, unless something else is said.
pub(crate) const LEASE_MS: u64 = 30_000;
/// A third of the lease is what a renewal may take before the run is stopped: a round trip to a store has to fit.
const SHORTEST_LEASE_MS: u64 = 100;
/// Headers that are the same on different requests.
const STEADY: [&str; 5] = ["authorization", "cookie", "host", "content-type", "content-length"];

/// A rule that is broken: what is wrong, and how to do it right.
pub(crate) struct Broken {
    pub(crate) what: String,
    pub(crate) help: String,
}

/// A sender that retries after the answer is forgotten runs the handler twice; 1.2 times its schedule leaves a margin.
pub(crate) fn ttl_outlives_retries(ttl: u64, window: u64, retries: &str) -> Option<Broken> {
    (u128::from(ttl) * 5 < u128::from(window) * 6).then(|| Broken {
        what: format!(
            "`ttl` must be 1.2 times the retries or more: {retries}, and the answer is forgotten after {}",
            format(ttl)
        ),
        help: format!("`ttl = \"{}\"` leaves a quarter to spare", format_up(window + window.div_ceil(4))),
    })
}

pub(crate) fn lease_leaves_time_to_renew(lease: u64) -> Option<Broken> {
    (lease < SHORTEST_LEASE_MS).then(|| Broken {
        what: "`lease` must be `100ms` or longer: it is renewed at a third of its length, which a store has to keep up with"
            .to_owned(),
        help: "leave it out for the default of `30s`; a handler may run for longer than its lease".to_owned(),
    })
}

/// A lease past the retention would hold a crashed attempt for longer than its answer is worth. `None` is the default.
pub(crate) fn lease_is_shorter_than_ttl(lease: Option<u64>, ttl: u64) -> Option<Broken> {
    let kept = format(ttl);
    let shorter = match (ttl / 3).min(LEASE_MS) {
        seconds @ 1_000.. => seconds - seconds % 1_000,
        shorter => shorter.max(SHORTEST_LEASE_MS),
    };
    (lease.unwrap_or(LEASE_MS) >= ttl).then(|| Broken {
        what: match lease {
            Some(_) => format!("`lease` must be shorter than `ttl` ({kept})"),
            None => format!("`ttl` ({kept}) must be longer than the lease, which is `30s` unless it is set"),
        },
        help: format!(
            "a lease is how soon a crashed attempt may be taken over, and is renewed while the handler runs: \
             `lease = \"{}\"`",
            format(shorter)
        ),
    })
}

/// Nothing is left to wait for once the answer is forgotten.
pub(crate) fn wait_is_no_longer_than_ttl(wait: u64, ttl: u64) -> Option<Broken> {
    let kept = format(ttl);
    (wait > ttl).then(|| Broken {
        what: format!("`wait` can't be longer than `ttl` ({kept})"),
        help: format!("nothing is left to wait for once the answer is forgotten: `wait = \"{kept}\"` at most"),
    })
}

pub(crate) fn header(name: &str) -> Result<(), String> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() {
        Err("a header's name is missing: `header = \"X-Request-Id\"`".to_owned())
    } else if let Some(wrong) = name.chars().find(|c| !token(*c)) {
        Err(format!("a header's name can't contain {wrong:?}: `header = \"X-Request-Id\"`"))
    } else if STEADY.iter().any(|steady| name.eq_ignore_ascii_case(steady)) {
        Err(format!(
            "`{name}` is the same on different requests, and the key must be new for each: `header = \"X-Request-Id\"`"
        ))
    } else {
        Ok(())
    }
}

pub(crate) fn operation(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("the operation's name is empty: `operation = \"payments.create\"`".to_owned());
    }
    Ok(())
}

/// What is expected where JSON Pointers (RFC 6901) are listed.
pub(crate) const POINTERS: &str = "expected JSON Pointers such as `\"/amount\"` or `\"/items/0/sku\"`";

/// One of listed JSON Pointers, after those `before` it.
pub(crate) fn pointer(pointer: &str, before: &[String]) -> Result<(), String> {
    if !pointer.starts_with('/') {
        Err(format!("a JSON Pointer starts with `/`: write {:?}", format!("/{}", pointer.replace('.', "/"))))
    } else if pointer.split('~').skip(1).any(|after| !after.starts_with(['0', '1'])) {
        Err("in a JSON Pointer `~` is written `~0`, and `/` in a name is `~1`".to_owned())
    } else if before.iter().any(|other| other == pointer) {
        Err(format!("`{pointer}` is listed twice"))
    } else {
        Ok(())
    }
}

pub(crate) const KEY_AND_HEADER: &str = "the key comes from `key` or from `header`, not from both: leave one out";
pub(crate) const KEY_AND_OPTIONAL: &str =
    "`optional` is about a request without the key's header, and `key` reads none: leave one out";
