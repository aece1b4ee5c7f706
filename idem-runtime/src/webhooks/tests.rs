//! Each sender's published example, what is refused and why, and parsers that never panic.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use serde_json::Value;

use super::{
    scheme::{Delivery, Scheme as _},
    *,
};

type Refused = Result<(), WebhookProblem>;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |&(name, value): &(&'static str, &str)| (HeaderName::from_static(name), value.parse().unwrap());
    pairs.iter().map(pair).collect()
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn code(refused: Refused) -> &'static str {
    refused.map_or_else(|problem| problem.code(), |()| "accepted")
}

const MISSING: &str = SignatureMissing::CODE;
const INVALID: &str = SignatureInvalid::CODE;
const STALE: &str = Stale::CODE;

/// docs.github.com, "Validating webhook deliveries", "Testing the webhook payload validation".
#[test]
fn github_signs_as_its_docs_say() {
    let secrets = WebhookSecrets::<GitHub>::new(["It's a Secret to Everybody"]).unwrap();
    let hex = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let check = |signature: &str, body: &str| {
        code(secrets.verify(&headers(&[("x-hub-signature-256", signature)]), body.as_bytes(), at(0)))
    };
    assert_eq!(check(&format!("sha256={hex}"), "Hello, World!"), "accepted");
    assert_eq!(check(&format!("sha256={hex}"), "Hello, World! "), INVALID);
    assert_eq!(check(&format!("sha1={hex}"), "Hello, World!"), INVALID);
    assert_eq!(check(hex, "Hello, World!"), INVALID);
    assert_eq!(check("sha256=", "Hello, World!"), INVALID);
    assert_eq!(check(&format!("sha256={}", &hex[..62]), "Hello, World!"), INVALID);
    assert_eq!(check(&format!("sha256={hex}00"), "Hello, World!"), INVALID);
    assert_eq!(check(&format!("sha256=zz{}", &hex[2..]), "Hello, World!"), INVALID);
    let sha1_only = headers(&[("x-hub-signature", "sha1=0000000000000000000000000000000000000000")]);
    assert_eq!(code(secrets.verify(&sha1_only, b"Hello, World!", at(0))), MISSING);
}

const SLACK_BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

/// docs.slack.dev, "Verifying requests from Slack".
#[test]
fn slack_signs_as_its_docs_say() {
    let secrets = WebhookSecrets::<Slack>::new(["8f742231b10e8888abcd99yyyzzz85a5"]).unwrap();
    let signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    let check =
        |pairs: &[(&'static str, &str)], now| code(secrets.verify(&headers(pairs), SLACK_BODY.as_bytes(), at(now)));
    let signed = [("x-slack-signature", signature), ("x-slack-request-timestamp", "1531420618")];
    assert_eq!(check(&signed, 1_531_420_618), "accepted");
    assert_eq!(check(&signed, 1_531_420_618 + 300), "accepted");
    assert_eq!(check(&signed, 1_531_420_618 + 301), STALE);
    assert_eq!(check(&signed, 1_531_420_618 - 300), "accepted");
    assert_eq!(check(&signed, 1_531_420_618 - 301), STALE);
    assert_eq!(check(&signed[..1], 1_531_420_618), MISSING);
    assert_eq!(check(&signed[1..], 1_531_420_618), MISSING);
    assert_eq!(check(&[signed[0], ("x-slack-request-timestamp", "1531420619")], 1_531_420_618), INVALID);
    assert_eq!(check(&[("x-slack-signature", &signature[3..]), signed[1]], 1_531_420_618), INVALID);
}

/// The example of the Standard Webhooks specification's own libraries, and the one of docs.svix.com, "Verifying webhooks manually".
#[test]
fn standard_webhooks_and_svix_sign_as_their_docs_say() {
    let standard = WebhookSecrets::<StandardWebhooks>::new(["whsec_plJ3nmyCDGBKInavdOK15jsl"]).unwrap();
    let body = br#"{"event_type":"ping","data":{"success":true}}"#;
    let right = "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=";
    let check = |signature: &str, stamp: &str| {
        let pairs =
            [("webhook-id", "msg_loFOjxBNrRLzqYUf"), ("webhook-timestamp", stamp), ("webhook-signature", signature)];
        code(standard.verify(&headers(&pairs), body, at(1_731_705_121)))
    };
    let now = "1731705121";
    assert_eq!(check(right, now), "accepted");
    assert_eq!(check(&format!("v1,AAAA v1a,xyz {right}"), now), "accepted", "one of several is right");
    assert_eq!(check(&right.replace("v1,", "v1a,"), now), INVALID, "another scheme's signature");
    assert_eq!(check(&right.replace("v1,", "v2,"), now), INVALID);
    assert_eq!(check(right.trim_end_matches('='), now), INVALID, "another spelling");
    assert_eq!(check("v1,not base64!", now), INVALID);
    assert_eq!(check("", now), INVALID);
    for stamp in
        ["", "-1", "+1731705121", " 1731705121", "1731705121.0", "1e9", "99999999999999999999", "18446744073709551615"]
    {
        assert_eq!(check(right, stamp), INVALID, "{stamp}");
    }

    let svix = WebhookSecrets::<StandardWebhooks>::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]).unwrap();
    let signature = ("svix-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let pairs = [("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"), ("svix-timestamp", "1614265330"), signature];
    let body = Bytes::from_static(br#"{"test": 2432232314}"#);
    let event = svix.open::<Value>(&headers(&pairs), body.clone(), at(1_614_265_330)).unwrap();
    assert_eq!((event.id(), event.body()), ("msg_p5jXN8AQM9LWM0D4loKWxJek", &body));
    let mixed = [pairs.as_slice(), &[("webhook-id", "msg_other")]].concat();
    assert_eq!(code(svix.verify(&headers(&mixed), &body, at(1_614_265_330))), MISSING, "families aren't mixed");
    // The same signed bytes, cut apart elsewhere.
    let cut = [("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330"), ("svix-timestamp", "1614265330"), signature];
    assert_eq!(code(svix.verify(&headers(&cut), &body, at(1_614_265_330))), INVALID);
}

/// The example of Square's own libraries' tests (`WebhooksHelper`).
#[test]
fn square_signs_its_url_too() {
    let pairs = headers(&[("x-square-hmacsha256-signature", "2kRE5qRU2tR+tBGlDwMEw2avJ7QM4ikPYD/PJ3bd9Og=")]);
    let check = |url: &str| {
        let secrets = WebhookSecrets::<Square>::for_url(url, ["asdf1234"]).unwrap();
        code(secrets.verify(&pairs, br#"{"hello":"world"}"#, at(0)))
    };
    assert_eq!(check("https://example.com/webhook"), "accepted");
    assert_eq!(check("https://example.com/webhook/"), INVALID);
    assert_eq!(check("http://example.com/webhook"), INVALID);
}

/// Shopify publishes no example: `base64(hmac.new(b"hush", body, hashlib.sha256).digest())` in Python.
#[test]
fn shopify_signs_as_python_does() {
    let secrets = WebhookSecrets::<Shopify>::new(["hush"]).unwrap();
    let body = Bytes::from_static(br#"{"id":820982911946154508}"#);
    let signature = ("x-shopify-hmac-sha256", "qBvrsZF7RfB1iS6BX6IHqJTp5L911P7intnPeTPsH0I=");
    let id = |more: &[(&'static str, &str)]| {
        let opened = secrets.open::<Value>(&headers(&[&[signature], more].concat()), body.clone(), at(0));
        opened.map(|event| event.id().to_owned()).map_err(|rejection| rejection.status())
    };
    assert_eq!(id(&[("x-shopify-event-id", "e1"), ("x-shopify-webhook-id", "w1")]).unwrap(), "e1");
    assert_eq!(id(&[("x-shopify-webhook-id", "w1")]).unwrap(), "w1");
    assert_eq!(id(&[("x-shopify-event-id", "e1"), ("x-shopify-topic", "orders/create")]).unwrap(), "orders/create:e1");
    assert_eq!(id(&[]).unwrap_err(), StatusCode::BAD_REQUEST);
    assert_eq!(id(&[("x-shopify-event-id", "")]).unwrap_err(), StatusCode::BAD_REQUEST);
}

const STRIPE_BODY: &[u8] = br#"{"id":"evt_1","type":"charge.succeeded"}"#;
const STRIPE_HEX: &str = "c0475716eb2200f1fe97fcf35a3c05d1fd4f8ba9a07a596730c8d18bb87c0672";

/// Stripe publishes a header and no secret: `hmac.new(b"whsec_test_secret", b"1700000000." + body, hashlib.sha256)` in Python.
#[test]
fn stripe_signs_as_python_does() {
    let secrets = WebhookSecrets::<Stripe>::new(["whsec_test_secret"]).unwrap();
    let check =
        |header: &str, body: &[u8], now| code(secrets.verify(&headers(&[("stripe-signature", header)]), body, at(now)));
    let right = format!("t=1700000000,v1={STRIPE_HEX}");
    let now = 1_700_000_000;
    assert_eq!(check(&right, STRIPE_BODY, now), "accepted");
    assert_eq!(check(&right, b"{}", now), INVALID);
    assert_eq!(
        check(&format!("t=1700000000,v1=00,v1={STRIPE_HEX},v0=11"), STRIPE_BODY, now),
        "accepted",
        "one of several"
    );
    assert_eq!(check(&format!("v1={STRIPE_HEX}, t=1700000000"), STRIPE_BODY, now), "accepted", "in any order");
    assert_eq!(check(&format!("t=1700000000,v0={STRIPE_HEX}"), STRIPE_BODY, now), INVALID, "another scheme");
    assert_eq!(check(&format!("t=1700000001,v1={STRIPE_HEX}"), STRIPE_BODY, now), INVALID);
    assert_eq!(check(&format!("t=1700000000,t=1700000000,v1={STRIPE_HEX}"), STRIPE_BODY, now), INVALID);
    assert_eq!(check(&format!("v1={STRIPE_HEX}"), STRIPE_BODY, now), INVALID);
    assert_eq!(check("t=1700000000", STRIPE_BODY, now), INVALID);
    assert_eq!(check(",", STRIPE_BODY, now), INVALID);
    assert_eq!(check("", STRIPE_BODY, now), INVALID);
    assert_eq!(check(&right, STRIPE_BODY, now + 300), "accepted", "the boundary itself");
    assert_eq!(check(&right, STRIPE_BODY, now - 300), "accepted");
    assert_eq!(check(&right, STRIPE_BODY, now + 301), STALE);
    assert_eq!(check(&right, STRIPE_BODY, now - 301), STALE);
    let just_past = at(now) + WebhookSecrets::<Stripe>::TOLERANCE + Duration::from_nanos(1);
    let signed = headers(&[("stripe-signature", &right)]);
    assert_eq!(code(secrets.verify(&signed, STRIPE_BODY, just_past)), STALE);
    let wide = secrets.clone().tolerance(Duration::from_secs(301));
    assert_eq!(code(wide.verify(&signed, STRIPE_BODY, at(now + 301))), "accepted");
    let forged = format!("t=1700000000,v1={}", "0".repeat(64));
    assert_eq!(check(&forged, STRIPE_BODY, now + 301), INVALID, "a time that nobody signed isn't looked at");
}

#[test]
fn either_of_two_secrets_is_accepted_while_they_rotate() {
    let signed = headers(&[("stripe-signature", &format!("t=1700000000,v1={STRIPE_HEX}"))]);
    let check = |secrets: &[&str]| {
        code(WebhookSecrets::<Stripe>::new(secrets).unwrap().verify(&signed, STRIPE_BODY, at(1_700_000_000)))
    };
    assert_eq!(check(&["whsec_new", "whsec_test_secret"]), "accepted");
    assert_eq!(check(&["whsec_test_secret", "whsec_old"]), "accepted");
    assert_eq!(check(&["whsec_new", "whsec_newer"]), INVALID);
}

#[test]
fn a_repeated_or_unreadable_header_is_refused() {
    let secrets = WebhookSecrets::<Stripe>::new(["whsec_test_secret"]).unwrap();
    let right: HeaderValue = format!("t=1700000000,v1={STRIPE_HEX}").parse().unwrap();
    let mut signed = HeaderMap::new();
    signed.append("stripe-signature", right.clone());
    signed.append("stripe-signature", right);
    assert_eq!(code(secrets.verify(&signed, STRIPE_BODY, at(1_700_000_000))), INVALID);
    signed.insert("stripe-signature", HeaderValue::from_bytes(b"t=1,v1=\xff").unwrap());
    assert_eq!(code(secrets.verify(&signed, STRIPE_BODY, at(1_700_000_000))), INVALID);
}

fn slack(body: &[u8]) -> Result<String, WebhookRejection> {
    match Slack::delivery(&HeaderMap::new(), body)? {
        Delivery::Event(id) => Ok(id),
        Delivery::Handshake(challenge) => Err(WebhookRejection::Handshake(challenge)),
    }
}

#[test]
fn slack_tells_events_handshakes_and_notices_apart() {
    assert_eq!(slack(br#"{"type":"event_callback","event_id":"Ev1"}"#).unwrap(), "Ev1");
    let notice = br#"{"type":"app_rate_limited","team_id":"T1","minute_rate_limited":1518467820}"#;
    assert_eq!(slack(notice).unwrap(), "app_rate_limited:T1:1518467820");
    let handshake = slack(br#"{"type":"url_verification","challenge":"c1","token":"t"}"#).unwrap_err();
    assert!(matches!(&handshake, WebhookRejection::Handshake(challenge) if challenge == "c1"));
    assert_eq!(handshake.status(), StatusCode::OK);
    for body in [&br#"{"type":"url_verification"}"#[..], b"{}", br#"{"event_id":""}"#, b"[1]", b"\xff", b""] {
        assert_eq!(slack(body).unwrap_err().status(), StatusCode::BAD_REQUEST, "{body:?}");
    }
}

#[test]
fn a_secret_that_is_none_is_refused() {
    let new = |texts: &[&str]| WebhookSecrets::<Stripe>::new(texts).map(|_| ()).unwrap_err();
    assert_eq!(new(&[]), SecretError::NoneGiven);
    assert_eq!(new(&[""]), SecretError::Empty);
    assert_eq!(new(&["whsec_1", ""]), SecretError::Empty);
    assert_eq!(new(&["whsec_1\n"]), SecretError::LineBreak);
    let standard = |text: &str| WebhookSecrets::<StandardWebhooks>::new([text]).map(|_| ()).unwrap_err();
    assert_eq!(standard("whsec_"), SecretError::Empty);
    assert_eq!(standard(""), SecretError::Empty);
    assert_eq!(standard("whsec_no base64"), SecretError::NotBase64);
    assert_eq!(standard("whsk_AAAA"), SecretError::Asymmetric);
    assert!(WebhookSecrets::<StandardWebhooks>::new(["plJ3nmyCDGBKInavdOK15jsl"]).is_ok());
}

#[test]
fn no_secret_and_no_payload_is_in_debug() {
    let secrets = WebhookSecrets::<Stripe>::new(["whsec_test_secret"]).unwrap();
    assert_eq!(format!("{secrets:?}"), r#"WebhookSecrets { sender: "Stripe", secrets: 1, tolerance: 300s, .. }"#);
    let square = WebhookSecrets::<Square>::for_url("https://user:hidden@example.com", ["asdf1234"]).unwrap();
    assert!(!format!("{square:?}").contains("hidden"));
    let signed = headers(&[("stripe-signature", &format!("t=1700000000,v1={STRIPE_HEX}"))]);
    let event = secrets.open::<Value>(&signed, Bytes::from_static(STRIPE_BODY), at(1_700_000_000)).unwrap();
    assert_eq!(format!("{event:?}"), r#"Webhook { sender: "Stripe", bytes: 40, .. }"#);
    assert_eq!(event.payload()["type"], "charge.succeeded");
    let refused = secrets.open::<u8>(&signed, Bytes::from_static(STRIPE_BODY), at(1_700_000_000)).unwrap_err();
    assert!(!refused.to_string().contains("evt_1"), "{refused}");
}

/// Every header a scheme reads, with any bytes that a header may hold.
fn any_headers() -> impl Strategy<Value = HeaderMap> {
    let name = prop::sample::select(vec![
        "stripe-signature",
        "x-hub-signature-256",
        "x-github-delivery",
        "x-shopify-hmac-sha256",
        "x-shopify-event-id",
        "x-slack-signature",
        "x-slack-request-timestamp",
        "x-square-hmacsha256-signature",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "svix-id",
        "svix-timestamp",
        "svix-signature",
    ]);
    let shaped = "(t=[0-9]{0,20}|v1=[0-9a-f]{0,3}|v1,[A-Za-z0-9=]{0,4}|v0=|sha256=|[0-9]{0,22}|[ ,=.]|[ -~]{0,8}){0,6}";
    let value = prop_oneof![
        shaped.prop_map(String::into_bytes),
        prop::collection::vec(prop_oneof![Just(9_u8), 32_u8..127, 128_u8..=255], 0..40),
    ];
    prop::collection::vec((name, value), 0..8).prop_map(|pairs| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_bytes(&value).unwrap());
        }
        headers
    })
}

proptest! {
    #[test]
    fn nothing_unsigned_is_accepted_and_nothing_panics(
        headers in any_headers(), body in prop::collection::vec(any::<u8>(), 0..64), now in any::<u32>(),
    ) {
        fn refused<V: Sender<Context = ()>>(headers: &HeaderMap, body: &[u8], now: SystemTime) -> bool {
            let secrets = WebhookSecrets::<V>::new(["c2VjcmV0c2VjcmV0"]).unwrap();
            let refused = secrets.verify(headers, body, now).is_err_and(|problem| problem.status() == 401);
            // Past the check, where only a sender could come.
            let _ = V::delivery(headers, body);
            refused
        }
        let now = at(now.into());
        prop_assert!(refused::<Stripe>(&headers, &body, now));
        prop_assert!(refused::<GitHub>(&headers, &body, now));
        prop_assert!(refused::<Shopify>(&headers, &body, now));
        prop_assert!(refused::<Slack>(&headers, &body, now));
        prop_assert!(refused::<StandardWebhooks>(&headers, &body, now));
        let square = WebhookSecrets::<Square>::for_url("https://example.com", ["asdf1234"]).unwrap();
        prop_assert!(square.verify(&headers, &body, now).is_err());
    }

    /// Any byte that differs makes the signature wrong.
    #[test]
    fn one_flipped_bit_is_refused(at_bit in 0..STRIPE_BODY.len() * 8) {
        let secrets = WebhookSecrets::<Stripe>::new(["whsec_test_secret"]).unwrap();
        let signed = headers(&[("stripe-signature", &format!("t=1700000000,v1={STRIPE_HEX}"))]);
        let mut body = STRIPE_BODY.to_vec();
        body[at_bit / 8] ^= 1 << (at_bit % 8);
        prop_assert_eq!(code(secrets.verify(&signed, &body, at(1_700_000_000))), INVALID);
    }
}
