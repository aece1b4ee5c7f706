//! What the attribute configures, as one const value.

/// How one handler is guarded. The attribute writes it as a literal; times are milliseconds. For
/// [`Idempotency::layer`](crate::Idempotency::layer) it is built from [`Policy::ttl`].
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    #[doc(hidden)]
    pub module: &'static str,
    #[doc(hidden)]
    pub handler: &'static str,
    /// Stands before the operation's name, so that doors never meet in one record.
    #[doc(hidden)]
    pub door: &'static str,
    #[doc(hidden)]
    pub ttl_ms: u64,
    #[doc(hidden)]
    pub lease_ms: u64,
    #[doc(hidden)]
    pub wait_ms: u64,
    #[doc(hidden)]
    pub header: &'static str,
    #[doc(hidden)]
    pub optional: bool,
    #[doc(hidden)]
    pub fingerprint: BodyFingerprint,
    #[doc(hidden)]
    pub record: Record,
    #[doc(hidden)]
    pub unknown: Unknown,
    #[doc(hidden)]
    pub outage: Outage,
    #[doc(hidden)]
    pub max_response: u64,
    #[doc(hidden)]
    pub operation: Option<&'static str>,
    /// Never written out, so that `..Policy::new(…)` always adds something: clippy would say that it doesn't.
    #[doc(hidden)]
    pub rest: (),
}

impl Policy {
    /// Every option at its default; a policy without `ttl` is never run.
    #[doc(hidden)]
    pub const DEFAULT: Self = Self {
        module: "",
        handler: "",
        door: "",
        ttl_ms: 0,
        lease_ms: 30_000,
        wait_ms: 0,
        header: "Idempotency-Key",
        optional: false,
        fingerprint: BodyFingerprint::ByContentType,
        record: Record::Deterministic,
        unknown: Unknown::Retry,
        outage: Outage::Reject,
        max_response: 1 << 20,
        operation: None,
        rest: (),
    };

    /// Every option at its default but the required one. A call costs the compiler less than a literal.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(module: &'static str, handler: &'static str, ttl_ms: u64) -> Self {
        Self { module, handler, ttl_ms, ..Self::DEFAULT }
    }
}

/// What of the body counts when two requests are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFingerprint {
    /// JSON, form and multipart bodies by their meaning, others by their bytes.
    ByContentType,
    /// JSON whatever the content type says.
    Json(Members),
    /// The bytes as they came.
    Raw,
    /// Nothing: any body matches.
    None,
}

/// Which members of a JSON body count, by JSON Pointer (RFC 6901).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// The whole document.
    All,
    /// All but what these point at.
    Skip(&'static [&'static str]),
    /// Only what these point at.
    Only(&'static [&'static str]),
}

/// Which answers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// 2xx, 3xx and 4xx, but 401, 403, 407, 408, 409, 421, 423, 425 and 429.
    Deterministic,
    /// 2xx only.
    Success,
    /// Every answer.
    All,
}

/// What follows a run that ended in nobody knows what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// A retry runs the handler again.
    Retry,
    /// Retries are refused until someone decides.
    Hold,
}

/// What happens when the store can't be reached at the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// 503: nothing runs unprotected.
    Reject,
    /// The handler runs, unprotected.
    Run,
}
