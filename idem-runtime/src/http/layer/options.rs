//! The attribute's options, as a builder.

use std::fmt;

use http::{Method, request::Parts};

use super::{Config, Read};
use crate::{
    Idempotency, KeyPart,
    http::extract::is_safe,
    policy::{BodyFingerprint, Members, Outage, Policy, Record, Unknown},
    rules,
    values::{Size, Time, conflicts},
};

/// How long a duplicate waits at least where the claim it meets may be about to be handed over: a second, but a small part
/// of a short lease.
const fn patience(lease_ms: u64) -> u64 {
    if lease_ms < 6_000 { lease_ms / 6 } else { 1_000 }
}

/// How a layer guards: the attribute's options, started by [`Policy::ttl`] and checked by
/// [`Idempotency::layer`].
#[must_use = "a policy does nothing before `idempotency.layer(policy)`"]
pub struct LayerPolicy {
    policy: Policy,
    retry_window: Option<u64>,
    header: Option<&'static str>,
    key: Option<Read>,
    scope: Option<Read>,
    methods: Vec<Method>,
    wrong: Vec<String>,
}

impl fmt::Debug for LayerPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerPolicy")
            .field("policy", &self.policy)
            .field("methods", &self.methods)
            .finish_non_exhaustive()
    }
}

impl Policy {
    /// Starts a layer's policy: an answer is kept for `ttl`, from its completion. Everything else is at the attribute's
    /// default.
    pub fn ttl(ttl: impl Into<Time>) -> LayerPolicy {
        LayerPolicy::new(ttl.into())
    }
}

impl LayerPolicy {
    pub(crate) fn new(ttl: Time) -> Self {
        let mut new = Self {
            policy: Policy { door: "layer ", ..Policy::DEFAULT },
            retry_window: None,
            header: None,
            key: None,
            scope: None,
            methods: vec![Method::POST, Method::PATCH],
            wrong: Vec::new(),
        };
        new.policy.ttl_ms = new.keep("ttl", ttl.millis()).unwrap_or(u64::MAX);
        new
    }

    fn keep<T>(&mut self, option: &str, value: Result<T, String>) -> Option<T> {
        value.map_err(|wrong| self.wrong.push(format!("`{option}`: {wrong}"))).ok()
    }

    /// The sender's longest retry schedule: a ttl below 1.2 times of it is refused. Default: not checked.
    pub fn retry_window(mut self, window: impl Into<Time>) -> Self {
        self.retry_window = self.keep("retry_window", window.into().millis());
        self
    }

    /// How soon a crashed attempt may be taken over; renewed while the service runs. Default: 30 seconds.
    pub fn lease(mut self, lease: impl Into<Time>) -> Self {
        if let Some(ms) = self.keep("lease", lease.into().millis()) {
            self.policy.lease_ms = ms;
        }
        self
    }

    /// How long a duplicate of a running attempt waits for its outcome, before it is told 409. Default: not at all.
    pub fn wait(mut self, wait: impl Into<Time>) -> Self {
        if let Some(ms) = self.keep("wait", wait.into().millis()) {
            self.policy.wait_ms = ms;
        }
        self
    }

    /// The header that carries the key. Default: `Idempotency-Key`.
    pub fn header(mut self, name: &'static str) -> Self {
        if let Err(wrong) = rules::header(name) {
            self.wrong.push(format!("`header`: {wrong}"));
        }
        (self.header, self.policy.header) = (Some(name), name);
        self
    }

    /// Reads the key from the request's head. Where it gives `None` there is no key. Excludes [`header`](Self::header) and
    /// [`optional`](Self::optional).
    pub fn key<T: KeyPart>(mut self, read: impl Fn(&Parts) -> T + Send + Sync + 'static) -> Self {
        self.key = Some(reader(read));
        self
    }

    /// Who is calling, read from the request's head, so that two callers never meet. Where it gives `None`, and by
    /// default, credentials are compared.
    pub fn scope<T: KeyPart>(mut self, read: impl Fn(&Parts) -> T + Send + Sync + 'static) -> Self {
        self.scope = Some(reader(read));
        self
    }

    /// A request without a key runs unprotected. Default: it is refused with 400.
    pub fn optional(mut self) -> Self {
        self.policy.optional = true;
        self
    }

    /// Which methods are guarded. Default: POST and PATCH.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = methods.into_iter().collect();
        if let Some(safe) = self.methods.iter().find(|method| is_safe(method)) {
            self.wrong.push(format!("`methods`: {safe} changes nothing, so there is nothing to guard"));
        }
        self
    }

    /// What of the body is compared. Default: by content type.
    pub fn fingerprint(mut self, fingerprint: BodyFingerprint) -> Self {
        if let BodyFingerprint::Json(Members::Skip(pointers) | Members::Only(pointers)) = fingerprint {
            let mut seen = Vec::new();
            for pointer in pointers {
                match rules::pointer(pointer, &seen) {
                    Ok(()) => seen.push((*pointer).to_owned()),
                    Err(wrong) => self.wrong.push(wrong),
                }
            }
            if pointers.is_empty() {
                self.wrong.push(rules::POINTERS.to_owned());
            }
        }
        self.policy.fingerprint = fingerprint;
        self
    }

    /// Which answers are kept. Default: the deterministic ones.
    pub fn record(mut self, record: Record) -> Self {
        self.policy.record = record;
        self
    }

    /// What follows a panic or a lapsed lease, with [`Unknown::Hold`] also a 5xx. Default: a retry runs again.
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.policy.unknown = unknown;
        self
    }

    /// What happens when the store can't be reached at the claim. Default: 503.
    pub fn outage(mut self, outage: Outage) -> Self {
        self.policy.outage = outage;
        self
    }

    /// The largest body that is kept; a retry of a larger one gets status and headers. Default: 1 MiB.
    pub fn max_response(mut self, size: impl Into<Size>) -> Self {
        if let Some(bytes) = self.keep("max_response", size.into().bytes()) {
            self.policy.max_response = bytes;
        }
        self
    }

    /// One name for everything below, that outlives route changes: a key is then good for one request on all of these
    /// routes. Default: method and route.
    pub fn operation(mut self, name: &'static str) -> Self {
        self.wrong.extend(rules::operation(name).err());
        self.policy.operation = Some(name);
        self
    }

    #[track_caller]
    pub(super) fn build(mut self, idempotency: Idempotency) -> Config {
        let Policy { ttl_ms, lease_ms, wait_ms, optional, .. } = self.policy;
        if ttl_ms != u64::MAX {
            self.wrong.extend(conflicts(ttl_ms, lease_ms, wait_ms, self.retry_window));
        }
        if self.key.is_some() && self.header.is_some() {
            self.wrong.push(rules::KEY_AND_HEADER.to_owned());
        }
        if self.key.is_some() && optional {
            self.wrong.push(rules::KEY_AND_OPTIONAL.to_owned());
        }
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        let patient = Policy { wait_ms: wait_ms.max(patience(lease_ms)), ..self.policy };
        Config { idempotency, policy: self.policy, patient, key: self.key, scope: self.scope, methods: self.methods }
    }
}

fn reader<T: KeyPart>(read: impl Fn(&Parts) -> T + Send + Sync + 'static) -> Read {
    Box::new(move |head| {
        let mut bytes = Vec::new();
        read(head).append(&mut bytes).then_some(bytes)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::MemoryStore;

    /// What is wrong with a policy; empty where it is good.
    fn wrong(policy: LayerPolicy) -> String {
        let built = std::panic::AssertUnwindSafe(|| {
            Idempotency::new(MemoryStore::new()).layer(policy);
        });
        match std::panic::catch_unwind(built) {
            Ok(()) => String::new(),
            Err(payload) => payload.downcast_ref::<String>().expect("a message").clone(),
        }
    }

    #[test]
    fn mistakes_are_told_in_the_attributes_words() {
        let only = |pointers| BodyFingerprint::Json(Members::Only(pointers));
        let day = || Policy::ttl("24h");
        let cases = [
            (Policy::ttl("24 hours"), "`ttl`: `24 hours`: write the unit as `h`: `24h`"),
            (Policy::ttl("24"), "write `24s`, `24h` or `24d`"),
            (Policy::ttl(Duration::ZERO), "no time at all"),
            (day().retry_window("72h"), "`ttl` must be 1.2 times the retries or more"),
            (day().lease("99ms"), "`lease` must be `100ms` or longer"),
            (day().lease("24h"), "`lease` must be shorter than `ttl` (1d)"),
            (Policy::ttl("30s"), "`ttl` (30s) must be longer than the lease, which is `30s` unless it is set"),
            (day().wait("25h"), "`wait` can't be longer than `ttl` (1d)"),
            (day().header("Authorization"), "is the same on different requests"),
            (day().header("a b"), "a header's name can't contain ' '"),
            (day().header("x-id").key(|_| "k"), "not from both"),
            (day().optional().key(|_| "k"), "leave one out"),
            (day().max_response(0), "no body at all would be kept"),
            (day().max_response("1KB"), "write `1kB`"),
            (day().operation(" "), "the operation's name is empty"),
            (day().methods([Method::POST, Method::GET]), "GET changes nothing"),
            (day().fingerprint(only(&["amount"])), "starts with `/`: write \"/amount\""),
            (day().fingerprint(only(&["/amount", "/amount"])), "`/amount` is listed twice"),
            (day().fingerprint(only(&[])), "expected JSON Pointers"),
        ];
        for (policy, message) in cases {
            let told = wrong(policy);
            assert!(told.contains(message), "{message}: {told}");
        }
        assert_eq!(wrong(day().lease(Duration::from_secs(3)).wait("5s").retry_window("20h").max_response(1 << 10)), "");
    }

    #[test]
    fn several_mistakes_are_told_together() {
        let told = wrong(Policy::ttl("1h").lease("2h").wait("3h").operation(""));
        assert_eq!(told.lines().count(), 3, "{told}");
    }
}
