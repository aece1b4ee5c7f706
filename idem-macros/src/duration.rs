//! Durations and sizes as people write them. `idem-runtime` links to this file.

/// More than any retention; keeps sums with the time of day far from overflow.
const LONGEST_MS: u64 = 36_500 * DAY;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// The units, longest first, as [`format()`] prints them.
const UNITS: [(&str, u64); 6] = [("w", WEEK), ("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)];

/// Reads `"24h"` or `"1d 12h"` as milliseconds; the error says what to write.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("a duration is missing: write a number and a unit, such as `24h`".into());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (term, after) = term(rest, text)?;
        total = total.checked_add(term).filter(|sum| *sum <= LONGEST_MS).ok_or_else(too_long)?;
        rest = after.trim_start();
    }
    match total {
        0 => Err(format!("`{text}` is no time at all: write a duration above zero, such as `24h`")),
        total => Ok(total),
    }
}

/// One number with its unit, and what follows it.
fn term<'a>(rest: &'a str, text: &str) -> Result<(u64, &'a str), String> {
    let (number, after) = split_while(rest, |c| c.is_ascii_digit());
    if number.is_empty() {
        return Err(if rest.starts_with('-') {
            format!("`{text}`: a duration can't be negative")
        } else {
            format!("`{text}` is no duration: write a number and a unit, such as `24h`")
        });
    }
    if after.starts_with(['.', ',']) {
        return Err(format!("`{text}`: write whole numbers and sum them, such as `1h 30m`"));
    }
    if after.starts_with('_') {
        return Err(format!("`{text}`: write the number without `_`"));
    }
    let (unit, next) = split_while(after.trim_start(), char::is_alphabetic);
    if let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) {
        if after.starts_with(char::is_whitespace) {
            return Err(format!("`{text}`: write the unit right after its number: `{number}{unit}`"));
        }
        let number: u64 = number.parse().map_err(|_| too_long())?;
        return Ok((number.checked_mul(*scale).ok_or_else(too_long)?, next));
    }
    Err(wrong_unit(number, unit, text))
}

fn wrong_unit(number: &str, unit: &str, text: &str) -> String {
    let lower = unit.to_lowercase();
    let singular = lower.strip_suffix('s').unwrap_or(&lower);
    let meant = match singular {
        "" if lower.is_empty() => {
            return format!("`{text}` has no unit: write `{number}s`, `{number}h` or `{number}d`");
        }
        "mo" | "mon" | "month" => {
            return format!("`{text}`: a month has no fixed length; write days, such as `30d`");
        }
        "y" | "yr" | "year" => {
            return format!("`{text}`: a year has no fixed length; write days, such as `365d`");
        }
        "u" | "µ" | "μ" | "n" | "micro" | "nano" | "microsecond" | "nanosecond" => {
            return format!("`{text}`: nothing is kept shorter than a millisecond: write `1ms`");
        }
        "milli" | "msec" | "millisecond" | "m" if lower != "m" => "ms",
        "" | "sec" | "second" => "s",
        "m" | "min" | "minute" => "m",
        "h" | "hr" | "hour" => "h",
        "d" | "day" => "d",
        "w" | "wk" | "week" => "w",
        _ => return format!("`{unit}` in `{text}` is no unit: write `ms`, `s`, `m`, `h`, `d` or `w`, such as `24h`"),
    };
    if lower.len() <= 2 && unit != lower {
        format!("`{text}`: units are lower case: write `{number}{meant}`")
    } else {
        format!("`{text}`: write the unit as `{meant}`: `{number}{meant}`")
    }
}

fn too_long() -> String {
    "longer than 36500d: that outlives any retry".into()
}

/// The shortest sum that says `ms`.
pub(crate) fn format(ms: u64) -> String {
    let mut rest = ms;
    let mut terms = Vec::new();
    for (unit, scale) in UNITS.iter().filter(|(unit, _)| *unit != "w") {
        if rest >= *scale {
            terms.push(format!("{}{unit}", rest / scale));
            rest %= scale;
        }
    }
    if terms.is_empty() { "0s".into() } else { terms.join(" ") }
}

/// The shortest whole number of hours, minutes, seconds or milliseconds that is `ms` or more, as a text.
pub(crate) fn format_up(ms: u64) -> String {
    let scale = [HOUR, MINUTE, SECOND].into_iter().find(|scale| ms >= 4 * scale).unwrap_or(1);
    let count = ms.div_ceil(scale);
    let unit = UNITS.iter().find(|(_, of)| *of == scale).map_or("ms", |(unit, _)| unit);
    format!("{count}{unit}")
}

/// Reads `"1MiB"` as bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    const SIZES: [(&str, u64); 7] = [
        ("B", 1),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
    ];
    let (number, unit) = split_while(text.trim(), |c| c.is_ascii_digit());
    let unit = unit.trim_start();
    if number.is_empty() {
        return Err(format!("`{text}` is no size: write a whole number and a unit, such as `1MiB`"));
    }
    let Some((_, scale)) = SIZES.iter().find(|(name, _)| *name == unit) else {
        let meant = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).or_else(|| {
            SIZES
                .iter()
                .find(|(name, _)| !unit.is_empty() && name.get(..1).is_some_and(|n| n.eq_ignore_ascii_case(unit)))
        });
        return Err(match meant {
            Some((name, _)) => format!("`{unit}` is no unit of size: write `{number}{name}`"),
            None if unit.is_empty() => format!("`{text}` has no unit: write `{number}B` or `{number}KiB`"),
            None => format!("`{unit}` is no unit of size: write `B`, `kB`, `KiB`, `MB`, `MiB`, `GB` or `GiB`"),
        });
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*scale));
    match bytes {
        Some(0) => Err("no body at all would be kept: write a size above zero, such as `64KiB`".into()),
        Some(bytes) if i64::try_from(bytes).is_ok() => Ok(bytes),
        _ => Err(format!("`{text}` is larger than any memory")),
    }
}

fn split_while(text: &str, accept: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !accept(c)).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit_and_sums() {
        let cases = [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
            ("2w", 1_209_600_000),
            ("1d 12h", 129_600_000),
            ("1d12h", 129_600_000),
            ("  1h  30m ", 5_400_000),
            ("1m500ms", 60_500),
            ("36500d", LONGEST_MS),
        ];
        for (text, ms) in cases {
            assert_eq!(parse(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn says_what_to_write_instead() {
        let cases = [
            ("", "a duration is missing"),
            ("24", "write `24s`, `24h` or `24d`"),
            ("0s", "no time at all"),
            ("0d 0h", "no time at all"),
            ("-1h", "can't be negative"),
            ("1.5h", "sum them"),
            ("1_000s", "without `_`"),
            ("24 hours", "`24h`"),
            ("24hours", "`24h`"),
            ("24 h", "right after its number: `24h`"),
            ("24H", "lower case: write `24h`"),
            ("5 MS", "lower case: write `5ms`"),
            ("5 min", "`5m`"),
            ("5 millis", "`5ms`"),
            ("1 month", "a month has no fixed length"),
            ("1mo", "a month has no fixed length"),
            ("1y", "a year has no fixed length"),
            ("10us", "nothing is kept shorter than a millisecond"),
            ("10 fortnights", "is no unit"),
            ("forever", "is no duration"),
            ("36501d", "longer than 36500d"),
            ("99999999999999999999h", "longer than 36500d"),
            ("18446744073709551615w", "longer than 36500d"),
            ("1d and 2h", "is no duration"),
            ("24h!", "is no duration"),
        ];
        for (text, message) in cases {
            let error = parse(text).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn prints_what_it_reads() {
        for text in ["250ms", "30s", "1h 30m", "1d 12h", "3d 3h 35m 5s"] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
        assert_eq!(format(0), "0s");
    }

    #[test]
    fn rounds_up_to_a_number_worth_writing() {
        assert_eq!(format_up(90 * HOUR), "90h");
        assert_eq!(format_up(75 * MINUTE), "75m");
        assert_eq!(format_up(90 * HOUR + 1), "91h");
        assert_eq!(format_up(3), "3ms");
    }

    #[test]
    fn reads_sizes() {
        assert_eq!(parse_size("1MiB"), Ok(1 << 20));
        assert_eq!(parse_size("64 KiB"), Ok(64 << 10));
        assert_eq!(parse_size("5MB"), Ok(5_000_000));
        assert_eq!(parse_size("17B"), Ok(17));
        let cases = [
            ("", "is no size"),
            ("12", "`12B` or `12KiB`"),
            ("1mib", "write `1MiB`"),
            ("1KB", "write `1kB`"),
            ("1M", "write `1MB`"),
            ("1 pound", "is no unit of size"),
            ("1.5MiB", "is no unit of size"),
            ("0B", "above zero"),
            ("99999999999GiB", "larger than any memory"),
        ];
        for (text, message) in cases {
            let error = parse_size(text).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
