//! JSON against an oracle, and under any spelling.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn canonical(text: &[u8]) -> Option<String> {
    let mut out = Vec::new();
    Document::read(text, None)?.write(&mut out);
    Some(String::from_utf8(out).expect("UTF-8"))
}

#[test]
fn the_vectors_of_rfc_8785_hold() {
    for (text, expected) in [
        ("1E30", "1e+30"),
        ("4.50", "4.5"),
        ("2e-3", "0.002"),
        ("0.000000000000000000000000001", "1e-27"),
        ("1e21", "1e+21"),
        ("1e20", "100000000000000000000"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("1e-7", "1e-7"),
        ("56.0", "56"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("0e7", "0"),
        ("1e2", "100"),
        ("1e23", "1e+23"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("-0.0000033333333333333333", "-0.0000033333333333333333"),
        ("333333333.3333333", "333333333.3333333"),
        ("-123.4560e1", "-1234.56"),
        ("12e-1", "1.2"),
        ("999999999999999999999", "999999999999999999999"),
        ("1000000000000000000000", "1e+21"),
        ("1234567890123456789012", "1.234567890123456789012e+21"),
        // Here RFC 8785 rounds, and would take two amounts for one.
        ("9007199254740993", "9007199254740993"),
        ("333333333.33333329", "333333333.33333329"),
        ("1.4e+9999", "1.4e+9999"),
        (r#""\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/""#, r#""€$\u000f\nA'B\"\\\\\"/""#),
        (r#""\u0000\b\t\f\r\u001f\u007f\u2028""#, "\"\\u0000\\b\\t\\f\\r\\u001f\u{7f}\u{2028}\""),
        (
            r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew","1":"One","\ud83d\ude00":"Emoji","\u0080":"Control","\u00f6":"o"}"#,
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"o\",\"€\":\"Euro Sign\",\"😀\":\"Emoji\",\"\u{fb33}\":\"Hebrew\"}",
        ),
        (r#"{"péché":1,"peach":2,"sin":3,"pêche":4}"#, r#"{"peach":2,"péché":1,"pêche":4,"sin":3}"#),
        (
            r#"{"1":{"f":{"f":"hi","F":5},"\n":56.0},"10":{},"":"empty","a":{},"111":[{"e":"yes","E":"no"}],"A":{}}"#,
            r#"{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{"E":"no","e":"yes"}],"A":{},"a":{}}"#,
        ),
        ("[ 56 , { \"d\" : true , \"10\" : null , \"1\" : [ ] } ]", r#"[56,{"1":[],"10":null,"d":true}]"#),
        (
            "{\"longer than eight\":1,\"longer than e\":2,\"longer t\":3}",
            "{\"longer t\":3,\"longer than e\":2,\"longer than eight\":1}",
        ),
        ("{\"long name \u{fb33}\":1,\"long name 😀\":2}", "{\"long name 😀\":2,\"long name \u{fb33}\":1}"),
    ] {
        assert_eq!(canonical(text.as_bytes()).as_deref(), Some(expected), "{text}");
        assert_eq!(canonical(expected.as_bytes()).as_deref(), Some(expected), "{text}");
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Json {
    Null,
    Bool(bool),
    /// `digits × 10^exponent`, the digits not ending in zero.
    Number {
        negative: bool,
        digits: String,
        exponent: i64,
    },
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

fn json() -> impl Strategy<Value = Json> {
    let number = ("[1-9][0-9]{0,13}[1-9]", -20..20i64, any::<bool>())
        .prop_map(|(digits, exponent, negative)| Json::Number { negative, digits, exponent });
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        number,
        "[a\u{0}-\u{1f}\"\\\\/\u{7f}é\u{e000}-\u{ffff}\u{10000}-\u{10ffff}]{0,9}".prop_map(Json::Text),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let name = prop_oneof!["[ab\u{0}\"\\\\é\u{fb33}😀]{0,3}", "[a-b]{7,10}[\u{fb33}😀]?"];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            proptest::collection::btree_map(name, inner, 0..6)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Choices, as long as they last.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn of(&mut self, count: usize) -> usize {
        self.0.next().map_or(0, |&byte| usize::from(byte) % count)
    }

    fn space(&mut self) -> &'static str {
        ["", "", " ", "\n\t", "\r\n  "][self.of(5)]
    }
}

fn spell(json: &Json, choices: &mut Choices<'_>) -> String {
    let value = match json {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number { negative, digits, exponent } => {
            format!("{}{}", if *negative { "-" } else { "" }, spell_number(digits, *exponent, choices))
        }
        Json::Text(text) => spell_text(text, choices),
        Json::Array(values) => {
            let values: Vec<_> = values.iter().map(|value| spell(value, choices)).collect();
            format!("[{}{}]", choices.space(), values.join(","))
        }
        Json::Object(members) => {
            let mut members: Vec<_> = members
                .iter()
                .map(|(name, value)| {
                    let name = spell_text(name, choices);
                    format!("{}{name}{}:{}", choices.space(), choices.space(), spell(value, choices))
                })
                .collect();
            for at in 1..members.len() {
                members.swap(at, choices.of(at + 1));
            }
            format!("{{{}{}}}", choices.space(), members.join(","))
        }
    };
    format!("{}{value}{}", choices.space(), choices.space())
}

fn spell_number(digits: &str, exponent: i64, choices: &mut Choices<'_>) -> String {
    let zeros = "0".repeat(choices.of(3));
    let length = i64::try_from(digits.len()).unwrap();
    match choices.of(4) {
        0 if exponent >= 0 => {
            let all = format!("{digits}{}", "0".repeat(usize::try_from(exponent).unwrap()));
            if zeros.is_empty() { all } else { format!("{all}.{zeros}") }
        }
        1 if exponent < 0 && -exponent < length => {
            let (whole, fraction) = digits.split_at(usize::try_from(length + exponent).unwrap());
            format!("{whole}.{fraction}{zeros}")
        }
        2 => {
            format!("0.{}{digits}{zeros}E{:+}", zeros.as_str(), exponent + length + i64::try_from(zeros.len()).unwrap())
        }
        _ => format!("{digits}{zeros}e{}", exponent - i64::try_from(zeros.len()).unwrap()),
    }
}

fn spell_text(text: &str, choices: &mut Choices<'_>) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        let must = char < ' ' || char == '"' || char == '\\';
        match char {
            '\n' if choices.of(2) == 0 => out.push_str("\\n"),
            '"' | '\\' | '/' if choices.of(2) == 0 => out.extend(['\\', char]),
            _ if must || choices.of(3) == 1 => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let unit = format!("\\u{unit:04x}");
                    out.push_str(&if choices.of(2) == 1 { unit.to_uppercase().replace("\\U", "\\u") } else { unit });
                }
            }
            _ => out.push(char),
        }
    }
    out + "\""
}

/// Changes the leaf at `at`, counting down.
fn change(json: &mut Json, at: &mut usize) -> bool {
    match json {
        Json::Array(values) if !values.is_empty() => values.iter_mut().any(|value| change(value, at)),
        Json::Object(members) if !members.is_empty() => members.iter_mut().any(|(_, value)| change(value, at)),
        leaf if *at == 0 => {
            match leaf {
                Json::Null => *leaf = Json::Text("null".to_owned()),
                Json::Bool(value) => *value = !*value,
                Json::Number { negative, digits, exponent } => match digits.len() % 3 {
                    0 => *negative = !*negative,
                    1 => *exponent += 1,
                    _ => digits.push('1'),
                },
                Json::Text(text) => text.push('x'),
                Json::Array(_) => *leaf = Json::Object(Vec::new()),
                Json::Object(_) => *leaf = Json::Null,
            }
            true
        }
        _ => {
            *at -= 1;
            false
        }
    }
}

fn has_repeated_name(text: &[u8]) -> bool {
    // Without its repeats, a document has as many names as it has colons outside of strings.
    fn names(value: &Value) -> usize {
        match value {
            Value::Array(values) => values.iter().map(names).sum(),
            Value::Object(members) => members.len() + members.values().map(names).sum::<usize>(),
            _ => 0,
        }
    }
    let (mut colons, mut in_string, mut escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            b':' if !in_string => colons += 1,
            _ => {}
        }
    }
    serde_json::from_slice(text).is_ok_and(|value: Value| names(&value) < colons)
}

fn agrees_with_serde(text: &[u8]) {
    let ours = canonical(text);
    match serde_json::from_slice::<Value>(text) {
        Ok(_) => assert_eq!(ours.is_none(), has_repeated_name(text), "{}", String::from_utf8_lossy(text)),
        Err(error) if error.to_string().starts_with("number out of range") => {}
        Err(error) => assert_eq!(ours, None, "{error}: {}", String::from_utf8_lossy(text)),
    }
    if let Some(ours) = ours {
        assert_eq!(canonical(ours.as_bytes()).as_ref(), Some(&ours));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn equal_meaning_is_equal(json in json(), one: Vec<u8>, other: Vec<u8>) {
        let [one, other] = [one, other].map(|choices| spell(&json, &mut Choices(choices.iter())));
        prop_assert!(canonical(one.as_bytes()).is_some(), "{one}");
        prop_assert!(same(&JSON, &one, &other), "{one}\n{other}");
    }

    #[test]
    fn a_changed_leaf_is_a_change(json in json(), at: prop::sample::Index, choices: Vec<u8>) {
        let mut changed = json.clone();
        let leaves = (1..100).find(|&count| !change(&mut json.clone(), &mut { count })).unwrap();
        prop_assert!(change(&mut changed, &mut at.index(leaves)));
        let [one, other] = [json, changed].map(|json| spell(&json, &mut Choices(choices.iter())));
        prop_assert!(!same(&JSON, &one, &other), "{one}\n{other}");
    }

    #[test]
    fn the_canonical_text_is_that_of_rfc_8785(json in json(), choices: Vec<u8>) {
        let text = spell(&json, &mut Choices(choices.iter()));
        let value: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(canonical(text.as_bytes()), Some(serde_json_canonicalizer::to_string(&value).unwrap()));
    }

    #[test]
    fn a_document_is_what_serde_takes_for_one(json in json(), choices: Vec<u8>, at: prop::sample::Index, byte in prop::sample::select(&b"\"\\{}[],:-+.e0u1 \x00\x80"[..]), cut in 0..3usize) {
        let mut text = spell(&json, &mut Choices(choices.iter())).into_bytes();
        agrees_with_serde(&text);
        let at = at.index(text.len());
        text.splice(at..(at + cut).min(text.len()), [byte]);
        agrees_with_serde(&text);
    }

    #[test]
    fn any_bytes_have_a_fingerprint(body: Vec<u8>, content_type: Vec<u8>, kind in 0..4usize) {
        let known: [&[u8]; 4] = [
            b"application/json",
            b"application/x-www-form-urlencoded",
            b"multipart/form-data; boundary=a",
            &content_type,
        ];
        let parts = Parts { content_type: Some(known[kind]), body: &body, ..BARE };
        prop_assert!(Fingerprint::of(&parts) == Fingerprint::of(&parts));
        let longer = [body.as_slice(), b"x"].concat();
        let longer = Parts { body: &longer, ..parts };
        prop_assert!(Fingerprint::of(&parts) != Fingerprint::of(&longer));
    }
}
