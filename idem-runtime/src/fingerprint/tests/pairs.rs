//! Forms and multipart bodies under any spelling.

use proptest::{collection::vec, prelude::*};

use super::*;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs() -> impl Strategy<Value = Pairs> {
    // Few names, so that some repeat.
    vec((vec(0_u8..4, 0..2), vec(any::<u8>(), 0..6)), 0..6)
}

/// With every byte escaped, by upper-case or lower-case digits.
fn form(pairs: &Pairs, upper: bool) -> String {
    let escape = |text: &[u8]| -> String {
        text.iter().map(|byte| if upper { format!("%{byte:02X}") } else { format!("%{byte:02x}") }).collect()
    };
    pairs.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect::<Vec<_>>().join("&")
}

fn parts(boundary: &str, parts: &[Vec<u8>]) -> Fingerprint {
    let mut body = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        body.extend(format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{at}\"\r\n\r\n").bytes());
        body.extend([part, &b"\r\n"[..]].concat());
    }
    body.extend(format!("--{boundary}--\r\n").bytes());
    let content_type = format!("multipart/form-data; boundary={boundary}");
    Fingerprint::of(&Parts { content_type: Some(content_type.as_bytes()), body: &body, ..BARE })
}

/// As Rack and PHP read them: the quantity belongs to the item before it.
#[test]
fn lists_of_a_form_keep_their_order() {
    let first = "items[][sku]=A&items[][qty]=2&items[][sku]=B";
    assert!(!same(&FORM, first, "items[][sku]=A&items[][sku]=B&items[][qty]=2"));
    assert!(same(&FORM, first, "items%5B%5D[sku]=A&items[%5d[qty]=2&items[][sku]=%42"));
    assert!(same(&FORM, "b=[]&a=1", "a=1&b=[]"), "a value is no name");
    assert!(same(&FORM, "b[0]=1&a[k]=1", "a[k]=1&b[0]=1"), "a number or a name says it by itself");
}

/// A parser may take the last of two headers of one name.
#[test]
fn repeated_headers_of_a_part_keep_their_order() {
    let part = |one: &str, two: &str| {
        let body = format!(
            "--a\r\nX-Other: 1\r\nContent-Disposition: form-data; name={one}\r\ncontent-disposition: form-data; name={two}\r\n\r\n9\r\n--a--"
        );
        let base = Parts { content_type: Some(b"multipart/form-data; boundary=a"), ..BARE };
        Fingerprint::of(&Parts { body: body.as_bytes(), ..base })
    };
    assert!(part("amount", "tip") != part("tip", "amount"));
    assert!(part("amount", "tip") == part("amount", "tip"));
}

proptest! {
    #[test]
    fn a_form_is_its_pairs(pairs in pairs(), other in pairs()) {
        let text = form(&pairs, true);
        prop_assert!(same(&FORM, &text, form(&pairs, false)));
        prop_assert!(same(&FORM, &text, ["&", &text, "&"].concat()));
        let sorted = |pairs: &Pairs| {
            let mut sorted = pairs.clone();
            // Stable: values of one name keep their order, which counts.
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            sorted
        };
        prop_assert!(same(&FORM, &text, form(&sorted(&pairs), true)));
        prop_assert_eq!(same(&FORM, &text, form(&other, true)), sorted(&pairs) == sorted(&other));
    }

    #[test]
    fn any_form_is_read(text in vec(any::<u8>(), 0..40), end in any::<u8>()) {
        prop_assert!(same(&FORM, &text, &text));
        let longer = [&text[..], b"&=", &[end]].concat();
        prop_assert!(end == b'&' || !same(&FORM, &text, longer));
    }

    #[test]
    fn a_multipart_body_is_its_parts(contents in vec(vec(any::<u8>(), 0..8), 0..4), other in vec(vec(any::<u8>(), 0..8), 0..4)) {
        let first = parts("first-boundary", &contents);
        prop_assert!(first == parts("another-boundary", &contents));
        prop_assert_eq!(first == parts("first-boundary", &other), contents == other);
    }

    #[test]
    fn any_multipart_body_is_read(body in vec(prop_oneof![Just(b'-'), Just(b'a'), Just(b'\r'), Just(b'\n'), any::<u8>()], 0..60)) {
        let base = Parts { content_type: Some(b"multipart/form-data; boundary=a"), ..BARE };
        prop_assert!(same(&base, &body, &body));
        let framed = [b"--a\r\n", &body[..], b"\r\n--a--"].concat();
        prop_assert!(same(&base, &framed, &framed));
    }
}
