//! The contents of JSON strings.

/// Where the bytes that stand for themselves end: at a quote, a backslash or a control character.
pub(super) fn plain_run(text: &[u8], from: usize) -> usize {
    const LOW: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = LOW << 7;
    let below = |word: u64, bound: u64| word.wrapping_sub(LOW * bound) & !word;
    let mut at = from;
    while let Some(eight) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*eight);
        // A borrow may mark bytes above the first hit, never below it.
        let special =
            below(word, 0x20) | below(word ^ (LOW * u64::from(b'"')), 1) | below(word ^ (LOW * u64::from(b'\\')), 1);
        if special & HIGH != 0 {
            return at + ((special & HIGH).trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while text.get(at).is_some_and(|&byte| !is_special(byte)) {
        at += 1;
    }
    at
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Appends what a string means that begins at `at`, after its quote; returns where it ends, after its quote.
pub(super) fn decode(text: &[u8], mut at: usize, out: &mut Vec<u8>) -> Option<usize> {
    loop {
        let end = plain_run(text, at);
        out.extend_from_slice(text.get(at..end)?);
        match text.get(end)? {
            b'"' => return Some(end + 1),
            b'\\' => {}
            _ => return None,
        }
        at = end + 2;
        let byte = match text.get(end + 1)? {
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 0x0C,
            b'r' => b'\r',
            byte @ (b'"' | b'\\' | b'/') => *byte,
            b'u' => {
                let char = unicode(text, &mut at)?;
                out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        out.push(byte);
    }
}

/// One character after `\u`, from one unit or a pair of surrogates.
fn unicode(text: &[u8], at: &mut usize) -> Option<char> {
    let first = unit(text, at)?;
    let mut units = [first, 0];
    let mut count = 1;
    if (0xD800..0xDC00).contains(&first) {
        (text.get(*at..*at + 2)? == b"\\u").then_some(())?;
        *at += 2;
        units = [first, unit(text, at)?];
        count = 2;
    }
    char::decode_utf16(units).take(count).next()?.ok()
}

fn unit(text: &[u8], at: &mut usize) -> Option<u16> {
    let digits = text.get(*at..*at + 4)?;
    *at += 4;
    digits.iter().try_fold(0, |unit: u16, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

/// Appends a string in quotes, with the escapes of RFC 8785 and no others.
pub(super) fn encode(plain: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut at = 0;
    loop {
        let end = plain_run(plain, at);
        out.extend_from_slice(plain.get(at..end).unwrap_or_default());
        let Some(&byte) = plain.get(end) else { break };
        match byte {
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            _ => {
                let digit = |nibble| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
        }
        at = end + 1;
    }
    out.push(b'"');
}
