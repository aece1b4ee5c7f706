//! Lengths of time and sizes, as the attribute takes them or as numbers.

use std::time::Duration;

use crate::{
    duration,
    policy::Policy,
    rules::{self, Broken},
};

/// A length of time: a text such as `"24h"` or `"1d 12h"`, in the units of the attribute, or a [`Duration`].
///
/// One that can't be used is an error where it is used, in the attribute's words.
#[derive(Clone, Debug)]
pub struct Time(Result<u64, String>);

impl Time {
    pub(crate) fn millis(self) -> Result<u64, String> {
        self.0
    }
}

impl From<&str> for Time {
    fn from(text: &str) -> Self {
        Self(duration::parse(text))
    }
}

impl From<Duration> for Time {
    fn from(time: Duration) -> Self {
        Self(duration::parse(&format!("{}ms", time.as_millis())))
    }
}

/// A size: a text such as `"64KiB"`, in the units of the attribute, or a number of bytes.
///
/// One that can't be used is an error where it is used, in the attribute's words.
#[derive(Clone, Debug)]
pub struct Size(Result<u64, String>);

impl Size {
    pub(crate) fn bytes(self) -> Result<u64, String> {
        self.0
    }
}

impl From<&str> for Size {
    fn from(text: &str) -> Self {
        Self(duration::parse_size(text))
    }
}

impl From<u64> for Size {
    fn from(bytes: u64) -> Self {
        Self(duration::parse_size(&format!("{bytes}B")))
    }
}

const _: () = assert!(Policy::DEFAULT.lease_ms == rules::LEASE_MS, "the rules speak of the default lease");

/// What is wrong between the options, in the attribute's words.
pub(crate) fn conflicts(ttl: u64, lease: u64, wait: u64, retry_window: Option<u64>) -> Vec<String> {
    let window = retry_window.and_then(|window| {
        rules::ttl_outlives_retries(ttl, window, &format!("the sender retries for {}", duration::format(window)))
    });
    let broken = [
        window,
        rules::lease_leaves_time_to_renew(lease),
        rules::lease_is_shorter_than_ttl((lease != rules::LEASE_MS).then_some(lease), ttl),
        rules::wait_is_no_longer_than_ttl(wait, ttl),
    ];
    broken.into_iter().flatten().map(|Broken { what, help }| format!("{what}; {help}")).collect()
}
