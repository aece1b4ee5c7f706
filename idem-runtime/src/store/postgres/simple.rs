//! Statements whose values stand in their text, for poolers that can't carry prepared ones.

use std::fmt::Write as _;

/// A value of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg<'a> {
    Int(i64),
    Bool(bool),
    Bytes(&'a [u8]),
    Text(&'a str),
    List(&'a [&'a [u8]]),
}

/// Writes the values where `sql` says `$1`, `$2`, …
pub(super) fn inline(sql: &str, args: &[Arg<'_>]) -> String {
    let bytes: usize = args.iter().map(|arg| if let Arg::Bytes(bytes) = arg { 2 * bytes.len() + 32 } else { 64 }).sum();
    let mut text = String::with_capacity(sql.len() + bytes);
    let mut parts = sql.split('$');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        match number.parse::<usize>().ok().and_then(|at| args.get(at.checked_sub(1)?)) {
            Some(arg) => write_literal(&mut text, *arg),
            None => text.extend(["$", number]),
        }
        text.push_str(rest);
    }
    text
}

fn write_literal(text: &mut String, arg: Arg<'_>) {
    match arg {
        // In parentheses, because a cast binds tighter than a minus.
        Arg::Int(value) => _ = write!(text, "({value})"),
        Arg::Bool(value) => _ = write!(text, "{value}"),
        Arg::Bytes(value) => write_bytes(text, value),
        Arg::Text(value) => {
            text.push_str("convert_from(");
            write_bytes(text, value.as_bytes());
            text.push_str(",'UTF8')");
        }
        Arg::List(values) => {
            text.push_str("ARRAY[");
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_bytes(text, value);
            }
            text.push(']');
        }
    }
}

/// Digits only between the quotes: nothing to escape, whatever `standard_conforming_strings` says.
fn write_bytes(text: &mut String, value: &[u8]) {
    text.push_str("decode('");
    text.extend(value.iter().flat_map(|byte| [hex_digit(byte >> 4), hex_digit(byte & 15)]));
    text.push_str("','hex')");
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_their_numbers_stood() {
        let args =
            [Arg::Int(-5), Arg::Bytes(b"\x00'\\\xff"), Arg::Bool(true), Arg::List(&[b"a", b""]), Arg::Text("(1,2)")];
        assert_eq!(
            inline("SELECT $1::bigint, $2, $3, $4::bytea[], $2, $5", &args),
            "SELECT (-5)::bigint, decode('00275cff','hex'), true, \
             ARRAY[decode('61','hex'),decode('','hex')]::bytea[], decode('00275cff','hex'), \
             convert_from(decode('28312c3229','hex'),'UTF8')"
        );
    }
}
