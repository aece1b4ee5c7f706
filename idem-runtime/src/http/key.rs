//! The key's header: a structured-field string (RFC 9651), or the bare value that most clients send.

use std::fmt;

use http::{HeaderMap, HeaderValue, header::AsHeaderName};

/// The longest key, in bytes.
const LONGEST: usize = 255;

/// What a client calls its request. Quotes and escapes are spelling, not key.
#[derive(Clone)]
pub(crate) struct Key(Spelling);

#[derive(Clone)]
enum Spelling {
    /// The header's value is the key.
    Bare(HeaderValue),
    Read(Box<[u8]>),
}

impl Key {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Spelling::Bare(value) => value.as_bytes(),
            Spelling::Read(key) => key,
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Why a header is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidKey {
    Repeated,
    Empty,
    TooLong,
    NotAscii,
    Malformed,
    SingleQuoted,
}

impl InvalidKey {
    /// For the client; says nothing of what it sent.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Repeated => "the header was sent more than once",
            Self::Empty => "the key is empty or blank",
            Self::TooLong => "the key is longer than 255 bytes",
            Self::NotAscii => "the key has a control or non-ASCII character; send printable ASCII",
            Self::Malformed => {
                "the value is neither a string in double quotes (with \\\" and \\\\ as its only escapes) nor a bare key \
                 without spaces, quotes, commas, semicolons and backslashes"
            }
            Self::SingleQuoted => "the key is in single quotes; use double quotes or none",
        }
    }
}

/// Reads the key; `None` only where the header is absent.
pub(crate) fn read(headers: &HeaderMap, name: impl AsHeaderName) -> Result<Option<Key>, InvalidKey> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => parse(value).map(Some),
        (Some(_), Some(_)) => Err(InvalidKey::Repeated),
    }
}

fn parse(header: &HeaderValue) -> Result<Key, InvalidKey> {
    // Most keys are neither quoted nor padded, and are taken as they stand.
    if (1..=LONGEST).contains(&header.len()) && header.as_bytes().iter().all(|&byte| is_plain(byte)) {
        return Ok(Key(Spelling::Bare(header.clone())));
    }
    let value = trim(header.as_bytes());
    if !value.iter().all(|byte| matches!(byte, 0x20..=0x7E)) {
        return Err(InvalidKey::NotAscii);
    }
    let key = match value {
        [b'"', rest @ ..] => quoted(rest).ok_or(InvalidKey::Malformed)?,
        [b'\'', ..] => return Err(InvalidKey::SingleQuoted),
        bare if bare.iter().any(|byte| b" \",;\\".contains(byte)) => return Err(InvalidKey::Malformed),
        bare => bare.to_vec(),
    };
    match key.len() {
        _ if key.iter().all(|&byte| byte == b' ') => Err(InvalidKey::Empty),
        1..=LONGEST => Ok(Key(Spelling::Read(key.into()))),
        _ => Err(InvalidKey::TooLong),
    }
}

/// What a bare key may consist of everywhere: a single quote means something only at its beginning.
fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E) && !matches!(byte, b'"' | b'\'' | b',' | b';' | b'\\')
}

fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = value {
        value = rest;
    }
    value
}

/// A string after its opening quote, with nothing behind it but parameters.
fn quoted(text: &[u8]) -> Option<Vec<u8>> {
    let mut text = Text(text);
    let key = text.string()?;
    text.parameters()?;
    Some(key)
}

/// Printable ASCII that is yet to be read.
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn skip(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        if there {
            self.next();
        }
        there
    }

    /// Skips what is `wanted`; says how much.
    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) -> usize {
        let before = self.0.len();
        while self.peek().is_some_and(&wanted) {
            self.next();
        }
        before - self.0.len()
    }

    /// The rest of a string.
    fn string(&mut self) -> Option<Vec<u8>> {
        let mut string = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Some(string),
                b'\\' => string.push(self.next().filter(|byte| matches!(byte, b'"' | b'\\'))?),
                byte => string.push(byte),
            }
        }
    }

    /// Reads parameters up to the end, and forgets them.
    fn parameters(&mut self) -> Option<()> {
        while self.skip(b';') {
            self.skip_while(|byte| byte == b' ');
            self.next().filter(|&byte| byte.is_ascii_lowercase() || byte == b'*')?;
            self.skip_while(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*')
            });
            if self.skip(b'=') {
                self.bare_item()?;
            }
        }
        self.0.is_empty().then_some(())
    }

    fn bare_item(&mut self) -> Option<()> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(true),
            b'@' => {
                self.next();
                self.number(false)
            }
            b'"' => {
                self.next();
                self.string().map(drop)
            }
            b'?' => {
                self.next();
                self.next().filter(|byte| matches!(byte, b'0' | b'1')).map(drop)
            }
            b':' => {
                self.next();
                self.skip_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
                self.skip(b':').then_some(())
            }
            b'%' => {
                self.next();
                self.display_string()
            }
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.skip_while(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte));
                Some(())
            }
            _ => None,
        }
    }

    fn number(&mut self, decimal: bool) -> Option<()> {
        self.skip(b'-');
        let whole = self.skip_while(|byte| byte.is_ascii_digit());
        let fits = if decimal && self.skip(b'.') {
            (1..=12).contains(&whole) && (1..=3).contains(&self.skip_while(|byte| byte.is_ascii_digit()))
        } else {
            (1..=15).contains(&whole)
        };
        fits.then_some(())
    }

    fn display_string(&mut self) -> Option<()> {
        self.skip(b'"').then_some(())?;
        let mut bytes = Vec::new();
        loop {
            match self.next()? {
                b'"' => return std::str::from_utf8(&bytes).is_ok().then_some(()),
                b'%' => {
                    let mut digit = || char::from(self.next().filter(|byte| !byte.is_ascii_uppercase())?).to_digit(16);
                    let (high, low) = (digit()?, digit()?);
                    bytes.push(u8::try_from(high << 4 | low).ok()?);
                }
                byte => bytes.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use proptest::prelude::*;
    use sfv::{BareItem, Parser};

    use super::*;

    fn parse(value: &[u8]) -> Result<String, InvalidKey> {
        let value = HeaderValue::from_bytes(value).expect("a header value");
        super::parse(&value).map(|key| String::from_utf8(key.as_bytes().to_vec()).expect("ASCII"))
    }

    #[test]
    fn quoted_and_bare_are_one_key() {
        for (value, key) in [
            ("\"8e03978e-40d5-43e8-bc93-6894a57f9324\"", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
            ("8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
            ("a1b2c3d4-e5f6-7890-abcd-ef1234567890", "a1b2c3d4-e5f6-7890-abcd-ef1234567890"),
            ("KG5LxwFBepaKHyUD", "KG5LxwFBepaKHyUD"),
            ("\"foo bar\"", "foo bar"),
            ("\" foo \"", " foo "),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            ("\"foo\";v=1", "foo"),
            ("\"foo\";  a;b=?0;*c=\"x;\\\"\";d=:aGk=:;e=@-1;f=%\"%c3%a9\";g=-1.5;h=*t/x;b", "foo"),
            ("  \"foo\"  ", "foo"),
            ("  foo  ", "foo"),
            ("12", "12"),
            ("?1", "?1"),
            (":aGk=:", ":aGk=:"),
            ("@165", "@165"),
            ("it's", "it's"),
            ("Key", "Key"),
            ("key", "key"),
        ] {
            assert_eq!(parse(value.as_bytes()).as_deref(), Ok(key), "{value}");
        }
        assert_eq!(parse("k".repeat(255).as_bytes()), Ok("k".repeat(255)));
        // 255 bytes of key, whatever their spelling takes.
        assert_eq!(parse(format!("\"{}\"", "\\\\".repeat(255)).as_bytes()), Ok("\\".repeat(255)));
    }

    #[test]
    fn what_is_no_key_is_an_error() {
        use InvalidKey::{Empty, Malformed, NotAscii, SingleQuoted, TooLong};
        for (value, error) in [
            ("", Empty),
            ("   ", Empty),
            ("\"\"", Empty),
            ("\"\";a", Empty),
            (r#""a\,b""#, Malformed),
            (r#""a\"#, Malformed),
            (r#""abc\""#, Malformed),
            ("\"abc", Malformed),
            ("\"", Malformed),
            ("'foo'", SingleQuoted),
            ("\"foo\" ; v=1", Malformed),
            ("\"foo\", \"bar\"", Malformed),
            ("\"foo, bar", Malformed),
            ("\"foo\"x", Malformed),
            ("\"foo\";", Malformed),
            ("\"foo\";V=1", Malformed),
            ("\"foo\";v=", Malformed),
            ("\"foo\";v=%\"%FF\"", Malformed),
            ("\"foo\";v=1234567890123456", Malformed),
            ("\"foo\";v=1.", Malformed),
            ("foo bar", Malformed),
            ("foo,bar", Malformed),
            ("foo;v=1", Malformed),
            ("foo\"", Malformed),
            ("a\\b", Malformed),
            ("%\"x\"", Malformed),
            ("\"fü\"", NotAscii),
            ("fü", NotAscii),
            ("\"a\tb\"", NotAscii),
            ("\tfoo", NotAscii),
            ("\t", NotAscii),
        ] {
            assert_eq!(parse(value.as_bytes()), Err(error), "{value}");
        }
        assert_eq!(parse(b"\xff"), Err(NotAscii));
        assert_eq!(parse("k".repeat(256).as_bytes()), Err(TooLong));
        assert_eq!(parse(format!("\"{}\"", "k".repeat(256)).as_bytes()), Err(TooLong));
    }

    #[test]
    fn a_repeated_header_is_no_key() {
        let name = HeaderName::from_static("idempotency-key");
        let mut headers = HeaderMap::new();
        assert_eq!(read(&headers, "Idempotency-Key"), Ok(None));
        headers.append(name.clone(), HeaderValue::from_static("a"));
        assert_eq!(read(&headers, "Idempotency-Key").unwrap().unwrap().as_bytes(), b"a");
        assert_eq!(read(&headers, "X-Request-Id"), Ok(None));
        headers.append(name, HeaderValue::from_static("a"));
        assert_eq!(read(&headers, "Idempotency-Key"), Err(InvalidKey::Repeated));
    }

    #[test]
    fn a_key_is_not_shown() {
        let key = super::parse(&HeaderValue::from_static("secret")).unwrap();
        assert!(!format!("{key:?}").contains("secret"));
    }

    /// The string item that the reference parser reads, if it does.
    fn reference(value: &[u8]) -> Option<String> {
        let item: sfv::Item = Parser::new(value).parse().ok()?;
        match item.bare_item {
            BareItem::String(string) => Some(string.as_str().to_owned()),
            _ => None,
        }
    }

    fn agrees(value: &[u8]) {
        let ours = parse(value);
        match reference(value) {
            Some(string) if string.bytes().all(|byte| byte == b' ') => assert_eq!(ours, Err(InvalidKey::Empty)),
            Some(string) if string.len() > LONGEST => assert_eq!(ours, Err(InvalidKey::TooLong)),
            Some(string) => assert_eq!(ours, Ok(string)),
            // The contents of a byte sequence are nobody's business here.
            None if trim(value).starts_with(b"\"") && !value.contains(&b':') => assert!(ours.is_err(), "{ours:?}"),
            None => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn strings_are_read_as_the_reference_reads_them(
            value in r#" {0,2}"([ -~]|\\"|\\\\){0,12}"(; {0,2}[a-z*][a-z0-9_*.-]{0,3}(=("[ -~]{0,4}"|-?[0-9]{1,16}(\.[0-9]{0,4})?|\?[012]|@-?[0-9]{1,16}|%"(%[0-9a-fA-F]{2}|[ -~]){0,4}"|[a-zA-Z*][!-~]{0,4}|:[a-zA-Z0-9+/]{4}:))?){0,3}[ x]{0,1}"#
        ) {
            agrees(value.as_bytes());
        }

        #[test]
        fn anything_is_read_as_the_reference_reads_it(value in proptest::collection::vec(0x20..0x7Fu8, 0..24)) {
            agrees(&value);
            agrees(&[b"\"", value.as_slice()].concat());
        }

        #[test]
        fn every_key_can_be_sent_in_quotes(key in "[ -~]{1,255}") {
            let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(parse(quoted.as_bytes()), Ok(key));
        }
    }
}
