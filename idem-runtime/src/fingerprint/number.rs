//! JSON numbers as exact decimals.

use std::io::Write as _;

/// The parts of a number that the JSON grammar allows.
pub(super) struct Number<'a> {
    pub(super) negative: bool,
    /// The digits before the point, without leading zeros but for a lone `0`.
    pub(super) whole: &'a [u8],
    /// The digits after the point.
    pub(super) fraction: &'a [u8],
    /// The digits of the exponent, with their sign.
    pub(super) exponent: Option<&'a [u8]>,
}

impl Number<'_> {
    /// Whether the number is written as [`Number::write`] would write it.
    pub(super) fn is_canonical(&self) -> bool {
        let zero = self.whole == b"0";
        self.exponent.is_none()
            && self.whole.len() <= 21
            && match self.fraction.last() {
                None => !(zero && self.negative),
                Some(b'0') => false,
                Some(_) => !zero || !self.fraction.starts_with(b"000000"),
            }
    }

    /// Writes the decimal in the layout of RFC 8785, but with all its digits: no two numbers look the same, and each looks
    /// the same however it was spelled. `None` when the exponent is beyond `i64`.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        let exponent = self.exponent.map_or(Some(0), exponent)?;
        let fraction = trim_end(self.fraction);
        let (whole, fraction, leading) = match self.whole {
            b"0" => {
                let leading = fraction.iter().take_while(|&&digit| digit == b'0').count();
                (&[][..], fraction.get(leading..)?, leading)
            }
            whole if fraction.is_empty() => (trim_end(whole), fraction, 0),
            whole => (whole, fraction, 0),
        };
        let count = whole.len() + fraction.len();
        if count == 0 {
            out.push(b'0');
            return Some(());
        }
        // The value is 0.DIGITS × 10^point.
        let before = if self.whole == b"0" { 0 } else { i64::try_from(self.whole.len()).ok()? };
        let point = exponent.checked_add(before)?.checked_sub(i64::try_from(leading).ok()?)?;
        if self.negative {
            out.push(b'-');
        }
        let start = out.len();
        out.extend_from_slice(whole);
        out.extend_from_slice(fraction);
        match usize::try_from(point) {
            Ok(point @ 1..=21) if point >= count => out.resize(start + point, b'0'),
            Ok(point @ 1..=21) => out.insert(start + point, b'.'),
            _ if (-5..=0).contains(&point) => {
                let zeros = usize::try_from(-point).ok()?;
                out.splice(start..start, b"0.".iter().copied().chain(std::iter::repeat_n(b'0', zeros)));
            }
            _ => {
                if count > 1 {
                    out.insert(start + 1, b'.');
                }
                write!(out, "e{:+}", point.checked_sub(1)?).ok()?;
            }
        }
        Some(())
    }
}

fn trim_end(mut digits: &[u8]) -> &[u8] {
    while let Some(shorter) = digits.strip_suffix(b"0") {
        digits = shorter;
    }
    digits
}

fn exponent(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
