//! Headers that a program must not forward as they are.
//!
//! Every forwarder removes the hop-by-hop headers (RFC 9110, section 7.6.1): the daemon's preview gateway, its egress,
//! the proxy for Open WebUI, and the agent's proxy. The framing of the body is handled here as well, because two implementations that read a body differently
//! see two different messages. A protocol upgrade is removed like the rest. A forwarder that supports it must add it
//! again.
//!
//! The preview gateway and the proxy for Open WebUI show servers of sandboxes. They also remove what a client or a server
//! claims about the other side, and rewrite addresses of the server itself.

mod claims;
mod host_wide;
mod location;

use http::HeaderMap;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};

pub use claims::remove_claims;
pub use host_wide::remove_host_wide;
pub use location::{path_on_server, rewrite_locations};

/// Headers that are hop-by-hop even if no Connection header names them.
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

/// Headers that are never removed. Without Host a request could be for any server. Without Content-Length a body
/// would be read as the next request.
const NEVER: [HeaderName; 2] = [HOST, CONTENT_LENGTH];

/// Removes the hop-by-hop headers of a message, and those that its Connection headers name.
pub fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = options(headers).filter_map(|option| option.parse().ok()).collect();
    // The body was read by its chunks, so the other length is removed.
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

/// Returns the options of the Connection headers.
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
    fn hop_by_hop_headers_are_removed_and_others_are_kept() {
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
    fn connection_cannot_remove_the_host_or_the_length() {
        let named = [("connection", "host, Content-Length"), ("host", "a.b"), ("content-length", "3")];
        assert_eq!(left(&named), ["content-length", "host"]);
    }

    #[test]
    fn a_content_length_beside_a_transfer_encoding_is_removed() {
        let both = [("content-length", "3"), ("transfer-encoding", "chunked"), ("host", "a.b")];
        assert_eq!(left(&both), ["host"]);
    }

    #[test]
    fn an_upgrade_needs_the_connection_option() {
        let upgrade = |connection: &'static str| {
            let pairs = [(CONNECTION, connection), (UPGRADE, "websocket")];
            let pairs = pairs.map(|(name, value)| (name, HeaderValue::from_static(value)));
            is_upgrade(&HeaderMap::from_iter(pairs))
        };
        assert!(upgrade("keep-alive, Upgrade"));
        assert!(!upgrade("keep-alive"));
    }
}
