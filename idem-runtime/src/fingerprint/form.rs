//! Form pairs: `a=1&b=2`.

use super::digest::Sink;

/// Where a decoded pair is: its name, then its value.
struct Pair {
    /// The name's first eight bytes, which decide most comparisons.
    prefix: u64,
    start: usize,
    middle: usize,
    end: usize,
}

/// Writes the decoded pairs by name; pairs of one name stay in their order. What is no escape stands for itself.
///
/// Where a name has `[]` all stay in their order: in `items[][sku]=a&items[][qty]=2&items[][sku]=b` it says what belongs together.
pub(super) fn write(text: &[u8], out: &mut impl Sink) {
    let mut decoded = Vec::with_capacity(text.len());
    let mut pairs = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (pair, after) = split_once(rest, b'&');
        rest = after;
        if pair.is_empty() {
            continue;
        }
        let (name, value) = split_once(pair, b'=');
        let start = decoded.len();
        decode(name, &mut decoded);
        let middle = decoded.len();
        decode(value, &mut decoded);
        let prefix = prefix(decoded.get(start..middle).unwrap_or_default());
        pairs.push(Pair { prefix, start, middle, end: decoded.len() });
    }
    let name = |pair: &Pair| decoded.get(pair.start..pair.middle).unwrap_or_default();
    if memchr::memmem::find(&decoded, b"[]").is_none() || !pairs.iter().any(|pair| is_list(name(pair))) {
        pairs.sort_by(|a, b| a.prefix.cmp(&b.prefix).then_with(|| name(a).cmp(name(b))));
    }
    // Hashed in one piece: many small ones take longer than what is in them.
    let mut framed = Vec::with_capacity(decoded.len() + 16 * pairs.len());
    for pair in &pairs {
        framed.framed(name(pair));
        framed.framed(decoded.get(pair.middle..pair.end).unwrap_or_default());
    }
    out.length(pairs.len());
    out.put(&framed);
}

fn is_list(name: &[u8]) -> bool {
    memchr::memmem::find(name, b"[]").is_some()
}

/// What comes before and after the first `at`.
fn split_once(text: &[u8], at: u8) -> (&[u8], &[u8]) {
    let end = memchr::memchr(at, text).unwrap_or(text.len());
    (text.get(..end).unwrap_or_default(), text.get(end + 1..).unwrap_or_default())
}

/// Up to eight bytes as a number: two names that differ in them sort as these do.
fn prefix(name: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.iter_mut().zip(name).for_each(|(to, byte)| *to = *byte);
    u64::from_be_bytes(eight)
}

fn decode(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr::memchr2(b'+', b'%', text) {
        let (plain, escape) = text.split_at_checked(at).unwrap_or_default();
        out.extend_from_slice(plain);
        text = match escape {
            [b'%', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex(*high) << 4 | hex(*low));
                after
            }
            [byte, after @ ..] => {
                out.push(if *byte == b'+' { b' ' } else { *byte });
                after
            }
            [] => return,
        };
    }
    out.extend_from_slice(text);
}

fn hex(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { (digit | 0x20) - b'a' + 10 }
}
