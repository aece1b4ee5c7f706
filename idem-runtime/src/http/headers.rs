//! Which headers of an answer are stored with it, and which a browser must be told of.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
};

/// The request headers that a browser's preflight asks for: name them in CORS as allowed, beside those of your own.
///
/// ```
/// use axum::http::Method;
/// use idem_runtime::http::{EXPOSED_HEADERS, REQUEST_HEADERS};
/// use tower_http::cors::CorsLayer;
///
/// let cors = CorsLayer::new()
///     .allow_origin(["https://shop.example".parse().unwrap()])
///     .allow_methods([Method::GET, Method::POST])
///     .allow_headers(REQUEST_HEADERS)
///     .expose_headers(EXPOSED_HEADERS);
/// // `router.layer(cors)`, outside of everything that answers: a preflight carries no key.
/// ```
///
/// `Content-Type` is among them, since JSON is asked for too. A handler with `header = "X-Request-Id"` needs that name instead
/// of the first. Access-control headers are never stored: a replay gets those of its own request.
pub const REQUEST_HEADERS: [HeaderName; 2] = [HeaderName::from_static("idempotency-key"), CONTENT_TYPE];

/// The response headers that a script may read if CORS exposes them: whether an answer is a replay, whether its body was
/// kept, and when to try again.
pub const EXPOSED_HEADERS: [HeaderName; 3] = [HeaderName::from_static("idempotent-replayed"), NOT_KEPT, RETRY_AFTER];

/// Says that the body of an answer was too large to be kept.
pub(super) const NOT_KEPT: HeaderName = HeaderName::from_static("idempotent-body");

/// Header fields that belong to one exchange and not to the answer: RFC 9110 §7.6.1, RFC 9111 §3.1, and what
/// infrastructure adds.
const OF_THE_EXCHANGE: &[&str] = &[
    "age",
    "alt-svc",
    "b3",
    "connection",
    "content-length",
    "correlation-id",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "ratelimit",
    "request-id",
    "server",
    "server-timing",
    "te",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-amzn-requestid",
    "x-amzn-trace-id",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-request-id",
];

/// The same, by how the name begins.
const FAMILIES_OF_THE_EXCHANGE: &[&str] = &["access-control-", "ratelimit-", "x-b3-", "x-ratelimit-"];

/// Fields that hand out or take away a caller's credentials: stored only if asked for.
const OF_THE_SESSION: &[&str] = &["authentication-info", "clear-site-data", "set-cookie", "www-authenticate"];

/// The fields of `headers` to be stored, in order, with repeats. `asked` names those that the application wants beyond.
pub(super) fn stored<'a>(
    headers: &'a HeaderMap,
    asked: &'a [HeaderName],
) -> impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)> {
    let nominates = headers.contains_key(CONNECTION);
    headers.iter().filter(move |(name, _)| is_stored(name, asked) && !(nominates && is_nominated(headers, name)))
}

fn is_stored(name: &HeaderName, asked: &[HeaderName]) -> bool {
    // What nearly every answer has needs no look into the lists.
    if *name == CONTENT_TYPE || *name == CONTENT_LENGTH {
        return *name == CONTENT_TYPE;
    }
    let text = name.as_str();
    let dropped = OF_THE_EXCHANGE.binary_search(&text).is_ok()
        || FAMILIES_OF_THE_EXCHANGE.iter().any(|family| text.starts_with(family));
    !dropped && (OF_THE_SESSION.binary_search(&text).is_err() || asked.contains(name))
}

/// Whether `Connection` names the field, which makes it hop-by-hop (RFC 9110 §7.6.1).
fn is_nominated(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(CONNECTION).iter().any(|value| {
        value
            .as_bytes()
            .split(|&byte| byte == b',')
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted() {
        assert!(OF_THE_EXCHANGE.is_sorted());
        assert!(OF_THE_SESSION.is_sorted());
    }

    #[test]
    fn what_connection_names_is_dropped() {
        let mut headers = HeaderMap::new();
        headers.append(CONNECTION, HeaderValue::from_static("close, X-Hop"));
        headers.append("x-hop", HeaderValue::from_static("1"));
        headers.append("x-kept", HeaderValue::from_static("1"));
        let names: Vec<_> = stored(&headers, &[]).map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["x-kept"]);
    }

    #[test]
    fn cookies_are_stored_only_if_asked_for() {
        let mut headers = HeaderMap::new();
        headers.append("set-cookie", HeaderValue::from_static("a=1"));
        headers.append("set-cookie", HeaderValue::from_static("b=2"));
        assert_eq!(stored(&headers, &[]).count(), 0);
        assert_eq!(stored(&headers, &[http::header::SET_COOKIE]).count(), 2);
    }
}
