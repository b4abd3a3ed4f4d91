//! Headers that are between two neighbours and not of the message (RFC 9110, section 7.6.1).
//!
//! Whoever passes an HTTP message on takes them off: the daemon's preview gateway, its egress, and the agent's proxy. What
//! frames a body is kept or dropped here as well, because two who read one body in two ways see two messages in it. A
//! change of protocol is taken off like the rest; who wants to pass it on says so anew.

use http::HeaderMap;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};

/// Those that need no Connection header to name them.
const ALWAYS: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Without the first a request would be anybody's, and without the second a body would be the next request.
const NEVER: [HeaderName; 2] = [HOST, CONTENT_LENGTH];

/// Takes them off a message, with those that its Connection headers name.
pub fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = options(headers).filter_map(|option| option.parse().ok()).collect();
    // Of two lengths the chunks' own is the one that the body was read by.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    for name in named.iter().filter(|name| !NEVER.contains(name)).chain(&ALWAYS) {
        headers.remove(name);
    }
}

/// Whether a message changes its connection's protocol.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(UPGRADE) && options(headers).any(|option| option.eq_ignore_ascii_case("upgrade"))
}

/// The options of the Connection headers.
fn options(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let texts = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn left(pairs: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let mut left: Vec<String> = headers.keys().map(ToString::to_string).collect();
        left.sort();
        left
    }

    #[test]
    fn what_is_the_connections_goes_and_the_rest_stays() {
        let mixed = [
            ("connection", "keep-alive, X-Mine"),
            ("connection", "x-second"),
            ("x-mine", "1"),
            ("x-second", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "Basic x"),
            ("authorization", "Bearer x"),
            ("content-length", "3"),
            ("cookie", "a=1"),
        ];
        assert_eq!(left(&mixed), ["authorization", "content-length", "cookie"]);
    }

    #[test]
    fn nobody_takes_the_host_or_the_length_off_by_naming_it() {
        let named = [("connection", "host, Content-Length"), ("host", "a.b"), ("content-length", "3")];
        assert_eq!(left(&named), ["content-length", "host"]);
    }

    #[test]
    fn of_two_lengths_none_is_left_to_be_read_in_another_way() {
        let both = [("content-length", "3"), ("transfer-encoding", "chunked"), ("host", "a.b")];
        assert_eq!(left(&both), ["host"]);
    }

    #[test]
    fn an_upgrade_is_one_only_where_the_connection_says_so() {
        let upgrade = |connection: &'static str| {
            let pairs = [(CONNECTION, connection), (UPGRADE, "websocket")];
            let pairs = pairs.map(|(name, value)| (name, HeaderValue::from_static(value)));
            is_upgrade(&HeaderMap::from_iter(pairs))
        };
        assert!(upgrade("keep-alive, Upgrade"));
        assert!(!upgrade("keep-alive"));
    }
}
