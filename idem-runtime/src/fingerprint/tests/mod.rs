mod json;
mod pairs;

use super::*;

const BARE: Parts<'_> = Parts {
    method: "POST",
    path: "/pay",
    query: None,
    credentials: &[],
    content_type: None,
    body: b"",
    mode: BodyFingerprint::ByContentType,
};
const JSON: Parts<'_> = Parts { content_type: Some(b"application/json"), ..BARE };
const FORM: Parts<'_> = Parts { content_type: Some(b"application/x-www-form-urlencoded"), ..BARE };

fn same(base: &Parts<'_>, a: impl AsRef<[u8]>, b: impl AsRef<[u8]>) -> bool {
    let of = |body| Fingerprint::of(&Parts { body, ..*base });
    let equal = of(a.as_ref()) == of(b.as_ref());
    assert!(equal || of(a.as_ref()).difference(of(b.as_ref()).as_bytes()) == Difference::Body);
    equal
}

fn hex(fingerprint: Fingerprint) -> String {
    fingerprint.as_bytes().map(|byte| format!("{byte:02x}")).concat()
}

#[test]
fn json_spelling_does_not_count() {
    for (a, b) in [
        (r#"{"a":1,"b":{"x":1,"y":2}}"#, r#" { "b" : { "y":2, "x":1 }, "a":1 } "#),
        (r#"{"amt":0.1}"#, r#"{"amt":0.10}"#),
        ("[1e2,-0,1.0]", "[100,0,1e0]"),
        (r#""\u00e9\/\n\ud83d\ude00""#, "\"é/\\u000a😀\""),
        ("null", " null\r\n\t "),
        ("[1E400]", "[10e399]"),
        (r#"{"\u0061":1,"b":2}"#, r#"{"b":2,"a":1}"#),
    ] {
        assert!(same(&JSON, a, b), "{a} {b}");
    }
}

#[test]
fn json_meaning_counts() {
    for (a, b) in [
        (r#"{"amt":1}"#, r#"{"amt":2}"#),
        ("9007199254740992", "9007199254740993"),
        ("18446744073709551617", "18446744073709551618"),
        ("90071992547409.921", "90071992547409.922"),
        ("1e400", "2e400"),
        (r#""0.1""#, r#""0.10""#),
        ("[1,2]", "[2,1]"),
        ("\"e\u{301}\"", "\"é\""),
        ("{}", ""),
        ("{}", "null"),
        ("{}", "[]"),
        ("null", ""),
        ("null", r#""null""#),
        ("[[],1]", "[[1]]"),
        (r#"{"a":{"b":1}}"#, r#"{"a":{},"b":1}"#),
        (r#"{"a":{}}"#, "{}"),
        ("true", "false"),
    ] {
        assert!(!same(&JSON, a, b), "{a} {b}");
    }
}

#[test]
fn what_is_no_json_counts_by_its_bytes() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"\u0061":1}"#,
        "\u{feff}{}",
        "NaN",
        "[NaN]",
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\u0041""#,
        "{} x",
        "[1,]",
        "[,1]",
        r#"{"a":1,}"#,
        r#"{"a"}"#,
        "01",
        "-",
        "1.",
        ".5",
        "+1",
        "1e",
        "\"a\tb\"",
        "\"open",
        r#""\x""#,
        "1e9223372036854775808",
        &deep(129),
    ] {
        assert!(Document::read(text.as_bytes(), None).is_none(), "{text}");
        assert!(same(&JSON, text, text));
        assert!(!same(&JSON, text, format!("{text} ")), "{text}");
    }
    assert!(Document::read(b"\"\xff\"", None).is_none());
    assert!(same(&JSON, deep(128), format!(" {}", deep(128))));
    // Bytes that look like a canonical document of another mode stay apart from it.
    let raw = Fingerprint::of(&Parts { mode: BodyFingerprint::Raw, body: b"{}", ..JSON });
    assert!(raw != Fingerprint::of(&Parts { body: b"{}", ..JSON }));
}

#[test]
fn form_spelling_does_not_count() {
    assert!(same(&FORM, "a=1&b=2", "b=2&a=1"));
    assert!(same(&FORM, "a=x%20y", "a=x+y"));
    assert!(same(&FORM, "%61=%c3%A9", "a=é"));
    assert!(same(&FORM, "a=1&&b=2&", "a=1&b=2"));
    assert!(!same(&FORM, "a=1&a=2", "a=2&a=1"));
    assert!(!same(&FORM, "a=%FF", "a=%FE"));
    assert!(!same(&FORM, "a=1%26b=2", "a=1&b=2"));
    assert!(!same(&FORM, "ab=c", "a=bc"));
    assert!(!same(&FORM, "a=+", "a=%2B"));
    assert!(same(&FORM, "a=%zz%4", "a=%zz%4"));
    assert!(!same(&FORM, "a=%zz", "a=zz"));
}

fn multipart(boundary: &str, file: &str, content: &str) -> Fingerprint {
    let content_type = format!("multipart/form-data; boundary={boundary}");
    let body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n1\r\n--{boundary}\r\n\
         Content-Disposition: form-data; name=\"f\"; filename=\"{file}\"\r\ncontent-type: text/plain\r\n\r\n{content}\r\n--{boundary}--\r\n"
    );
    Fingerprint::of(&Parts { content_type: Some(content_type.as_bytes()), body: body.as_bytes(), ..BARE })
}

#[test]
fn multipart_counts_by_part() {
    let first = multipart("one", "a.txt", "text\r\n--on");
    assert!(first == multipart("another", "a.txt", "text\r\n--on"));
    assert!(first != multipart("one", "b.txt", "text\r\n--on"));
    assert!(first != multipart("one", "a.txt", "text\r\n--no"));
    // A boundary that goes on is no boundary here: such a body counts by its bytes, so its boundary counts.
    assert!(multipart("one", "a.txt", "\r\n--one1") != multipart("two", "a.txt", "\r\n--two1"));
}

#[test]
fn other_bodies_count_by_their_bytes() {
    let text = Parts { content_type: Some(b"text/plain"), ..BARE };
    assert!(!same(&text, "{}", "{ }"));
    assert!(!same(&BARE, "{}", "{ }"));
    let json = BodyFingerprint::Json(Members::All);
    assert!(same(&Parts { mode: json, ..text }, "{}", "{ }"));
    let none = Parts { mode: BodyFingerprint::None, ..text };
    assert!(same(&none, "a", "b"));
    assert!(Fingerprint::of(&none) == Fingerprint::of(&Parts { content_type: None, ..none }));
    assert!(Fingerprint::of(&none) != Fingerprint::of(&Parts { mode: BodyFingerprint::Raw, ..none }));
}

#[test]
fn members_are_skipped_or_kept() {
    let skip = |pointers| Parts { mode: BodyFingerprint::Json(Members::Skip(pointers)), ..JSON };
    let only = |pointers| Parts { mode: BodyFingerprint::Json(Members::Only(pointers)), ..JSON };

    let sent_at = skip(&["/sent_at", "/nothing", "/items/1/at", "/a~1b~0c"]);
    assert!(same(&sent_at, r#"{"amt":1,"sent_at":[1]}"#, r#"{"sent_at":{"x":2},"amt":1}"#));
    assert!(same(&sent_at, r#"{"amt":1,"sent_at":1}"#, r#"{"amt":1}"#));
    assert!(!same(&sent_at, r#"{"amt":1,"sent_at":1}"#, r#"{"amt":2,"sent_at":1}"#));
    assert!(same(&sent_at, r#"{"items":[1,{"at":1}]}"#, r#"{"items":[1,{"at":2}]}"#));
    assert!(!same(&sent_at, r#"{"items":[{"at":1}]}"#, r#"{"items":[{"at":2}]}"#));
    assert!(same(&sent_at, r#"{"a/b~c":1}"#, "{}"));
    assert!(!same(&sent_at, r#"{"sent_at":1,"sent_at":2}"#, r#"{"sent_at":1,"sent_at":3}"#));
    assert!(same(&skip(&["/0", "/2"]), "[1,2,3,4]", "[ 9,2, 9 ,4]"));
    assert!(!same(&skip(&["/0", "/2"]), "[1,2,3,4]", "[1,2,3,5]"));
    assert!(!same(&skip(&["/00"]), "[1]", "[2]"));
    assert!(same(&skip(&[""]), "[1]", "2"));
    assert!(!same(&skip(&["amt"]), r#"{"amt":1}"#, r#"{"amt":2}"#));

    let amount = only(&["/amount", "/to/0"]);
    assert!(same(&amount, r#"{"amount":1,"to":["x","y"]}"#, r#"{"n":[{}],"to":["x"],"amount":1.0}"#));
    assert!(!same(&amount, r#"{"amount":1,"to":["x"]}"#, r#"{"amount":1,"to":["z"]}"#));
    assert!(!same(&amount, r#"{"amount":null}"#, "{}"));
    assert!(!same(&amount, r#"{"amount":"x"}"#, r#"{"to":["x"]}"#));
    assert!(!same(&amount, "not json 1", "not json 2"));
    assert!(!same(&only(&["amt"]), r#"{"amt":1}"#, r#"{"amt":2}"#));
    assert!(same(&only(&["/a", "/a/b"]), r#"{"a":{"b":1,"c":2}}"#, r#"{"a":{"c":2,"b":1},"d":0}"#));
    assert!(!same(&only(&["/a", "/a/b"]), r#"{"a":{"b":1,"c":2}}"#, r#"{"a":{"b":1,"c":3}}"#));
}

#[test]
fn a_selection_is_a_part_of_what_is_compared() {
    let of = |members| Fingerprint::of(&Parts { mode: BodyFingerprint::Json(members), body: b"{\"a\":1}", ..JSON });
    let all = [
        of(Members::All),
        of(Members::Skip(&[])),
        of(Members::Skip(&["/b"])),
        of(Members::Skip(&["/c"])),
        of(Members::Only(&[])),
        of(Members::Only(&["/a"])),
        of(Members::Only(&[""])),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(all.iter().skip(at + 1).all(|other| one != other), "{at}");
    }
    assert!(of(Members::Skip(&["/b", "/c"])) == of(Members::Skip(&["/c", "/b", "/c"])));
}

#[test]
fn a_mismatch_names_the_first_part_that_differs() {
    let credentials: &[(&str, &[u8])] = &[("authorization", b"Bearer one")];
    let base = Parts { query: Some("a=1&b=2"), credentials, ..JSON };
    let of = Fingerprint::of;
    let stored = of(&base);
    let difference = |parts: &Parts<'_>| {
        assert!(stored != of(parts));
        of(parts).difference(stored.as_bytes())
    };
    assert!(stored == of(&Parts { query: Some("b=%32&a=1"), ..base }));
    assert_eq!(difference(&Parts { path: "/pay/", ..base }), Difference::Target);
    assert_eq!(difference(&Parts { method: "DELETE", ..base }), Difference::Target);
    assert_eq!(difference(&Parts { query: Some("a=1&b=3"), body: b"1", ..base }), Difference::Target);
    assert_eq!(difference(&Parts { query: None, ..base }), Difference::Target);
    assert_eq!(difference(&Parts { credentials: &[], body: b"1", ..base }), Difference::Credentials);
    let two: &[(&str, &[u8])] = &[("authorization", b"Bearer two")];
    assert_eq!(difference(&Parts { credentials: two, content_type: None, ..base }), Difference::Credentials);
    assert_eq!(difference(&Parts { content_type: None, body: b"1", ..base }), Difference::MediaType);
    assert_eq!(difference(&Parts { body: b"1", ..base }), Difference::Body);
    assert_eq!(stored.difference(b"short"), Difference::Unknown);
    let mut newer = *stored.as_bytes();
    newer[0] = 2;
    assert_eq!(stored.difference(&newer), Difference::Unknown);
}

#[test]
fn a_question_mark_alone_is_no_query() {
    let of = |query| Fingerprint::of(&Parts { query, ..BARE });
    assert!(of(Some("")) == of(None) && of(Some("a")) != of(None));
}

/// RFC 9113 section 8.2.3: HTTP/2 may split the cookies, and a retry may come by another version.
#[test]
fn split_cookies_are_the_same_cookies() {
    let of = |credentials| Fingerprint::of(&Parts { credentials, ..BARE });
    let split = of(&[("authorization", b"t"), ("cookie", b"a=1"), ("cookie", b"b=2"), ("x-api-key", b"k")]);
    assert!(split == of(&[("authorization", b"t"), ("cookie", b"a=1; b=2"), ("x-api-key", b"k")]));
    assert!(split != of(&[("authorization", b"t"), ("cookie", b"b=2; a=1"), ("x-api-key", b"k")]));
    assert!(of(&[("x-api-key", b"a"), ("x-api-key", b"b")]) != of(&[("x-api-key", b"a; b")]));
}

#[test]
fn neighbouring_values_do_not_run_together() {
    let of = |credentials| Fingerprint::of(&Parts { credentials, ..BARE });
    assert!(of(&[("x-a", b"bc")]) != of(&[("x-ab", b"c")]));
    assert!(of(&[("a", b"b"), ("c", b"d")]) != of(&[("a", b"bcd")]));
    let target = |path, query| Fingerprint::of(&Parts { path, query, ..BARE });
    assert!(target("/a", Some("b")) != target("/ab", None));
    assert!(target("/a%2Fb", None) != target("/a/b", None));
}

/// A change of any of these locks every retry in flight out of its own key.
#[test]
fn the_format_is_frozen() {
    let credentials: &[(&str, &[u8])] = &[("authorization", b"Bearer t"), ("x-api-key", b"k")];
    let json = Parts {
        path: "/orders/7",
        query: Some("b=2&a=%C3%A9+1"),
        credentials,
        content_type: Some(b"Application/JSON; charset=utf-8; v=1"),
        body: br#"{"b":[1.50,1e21,-0.0],"a":{"\u00e9":"\n\/","n":null},"z":{}}"#,
        ..BARE
    };
    let multipart = Parts {
        content_type: Some(b"multipart/form-data; boundary=x"),
        body: b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n",
        ..BARE
    };
    let mode = |mode| Parts { mode, ..json };
    let vectors = [
        (BARE, "013241ebfcd119496da9ad3e08323a71d13c2b2d6768e4b4ff823a1ea4508b4dbdbe39d7020000000000000000"),
        (
            Parts { body: b"raw", ..BARE },
            "01e734cfb7daf9702223c82f201c4c85fd55c801189350f7025fae68f8c68847dbbe39d7020000000000000000",
        ),
        (json, "01699c3f75b9dec4d8977da7ecec1ecac69d9b582a74fd3d3c36bcce8388ed3f3d0b4e5b9b050000009c173a73"),
        (
            Parts { body: b"b=2&a=1&a=0", ..FORM },
            "01ffd8067a0849fff953710b9bbf00458f7633e944928f22434da2aaf6057fc077be39d70200000000d97ef847",
        ),
        (multipart, "011de4b02109800f82127a0ee170a27f50249eb9924ec3881e4c112d40b11893e6be39d7020000000055682d79"),
        (
            mode(BodyFingerprint::None),
            "01499aec1b2a950d6ef9a82e72e5224c67f9fdf25de7f60f9cab227b93026d9ff50b4e5b9b0500000000000000",
        ),
        (
            mode(BodyFingerprint::Json(Members::Skip(&["/b/0", "/q"]))),
            "01416538657440498b57b6576049bbe188032893dbf2e22664097611b4a724f99c0b4e5b9b050000009c173a73",
        ),
        (
            mode(BodyFingerprint::Json(Members::Only(&["/b/0", "/q"]))),
            "01cf85ac8686eb515f65771c85a314419a4abd43a1fb02fadbfd948b0cdb01e8450b4e5b9b050000009c173a73",
        ),
    ];
    for (parts, expected) in vectors {
        assert_eq!(hex(Fingerprint::of(&parts)), expected);
    }
}
