//! Lengths of time and sizes, as the attribute takes them or as numbers.

use std::time::Duration;

use crate::duration;

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

/// What is wrong between the options, in the attribute's words.
pub(crate) fn conflicts(ttl: u64, lease: u64, wait: u64, retry_window: Option<u64>) -> Vec<String> {
    let kept = duration::format(ttl);
    let mut wrong = Vec::new();
    if let Some(window) = retry_window
        && u128::from(ttl) * 5 < u128::from(window) * 6
    {
        let (retries, enough) = (duration::format(window), duration::format_up(window + window.div_ceil(4)));
        wrong.push(format!(
            "`ttl` must be 1.2 times the retries or more: the sender retries for {retries}, and the answer is forgotten \
             after {kept}; `ttl = \"{enough}\"` leaves a quarter to spare"
        ));
    }
    if lease >= ttl {
        wrong.push(format!(
            "`lease` must be shorter than `ttl` ({kept}); a lease is how soon a crashed attempt may be taken over, and is \
             renewed while the handler runs: `lease = \"30s\"`"
        ));
    }
    if wait > ttl {
        wrong.push(format!("`wait` can't be longer than `ttl` ({kept})"));
    }
    wrong
}
