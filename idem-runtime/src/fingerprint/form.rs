//! Form pairs: `a=1&b=2`.

use super::digest::Sink;

/// Where a decoded pair is: its name, then its value.
struct Pair {
    start: usize,
    middle: usize,
    end: usize,
}

/// Writes the decoded pairs by name; pairs of one name stay in their order. What is no escape stands for itself.
pub(super) fn write(text: &[u8], out: &mut impl Sink) {
    let mut decoded = Vec::with_capacity(text.len());
    let mut pairs = Vec::new();
    for pair in text.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()) {
        let equals = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
        let start = decoded.len();
        decode(pair.get(..equals).unwrap_or_default(), &mut decoded);
        let middle = decoded.len();
        decode(pair.get(equals + 1..).unwrap_or_default(), &mut decoded);
        pairs.push(Pair { start, middle, end: decoded.len() });
    }
    let name = |pair: &Pair| decoded.get(pair.start..pair.middle).unwrap_or_default();
    pairs.sort_by(|a, b| name(a).cmp(name(b)));
    out.length(pairs.len());
    for pair in &pairs {
        out.framed(name(pair));
        out.framed(decoded.get(pair.middle..pair.end).unwrap_or_default());
    }
}

fn decode(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some((&byte, rest)) = text.split_first() {
        text = rest;
        match (byte, rest) {
            (b'+', _) => out.push(b' '),
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex(*high) << 4 | hex(*low));
                text = after;
            }
            _ => out.push(byte),
        }
    }
}

fn hex(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { (digit | 0x20) - b'a' + 10 }
}
