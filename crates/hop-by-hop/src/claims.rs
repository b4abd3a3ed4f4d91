//! Headers of a request that only a forwarder may set.

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};

/// Headers from which servers take the client's address or the requested URL, besides every `x-forwarded-…`. The framing
/// headers are listed for their names with underscores, which WSGI does not distinguish.
const CLAIMS: [&str; 16] = [
    "cf-connecting-ip",
    "client-ip",
    "content-length",
    "forwarded",
    "proxy",
    "transfer-encoding",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-host",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-url",
    "x-real-ip",
    "x-remote-addr",
    "x-rewrite-url",
];

/// Removes headers with which a client could forge its address or the URL that it requests.
pub fn remove_claims(headers: &mut HeaderMap) {
    let claims: Vec<HeaderName> = headers.keys().filter(|name| is_claim(name)).cloned().collect();
    for name in claims {
        headers.remove(name);
    }
}

fn is_claim(name: &HeaderName) -> bool {
    let plain = name.as_str().replace('_', "-");
    let frames = [CONTENT_LENGTH, TRANSFER_ENCODING].contains(name);
    !frames && (plain.starts_with("x-forwarded") || CLAIMS.contains(&plain.as_str()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn claims_are_removed_with_either_separator() {
        let names = [
            "x-forwarded-for",
            "x_forwarded_for",
            "x-forwarded-client-cert",
            "x_forwarded-user",
            "x-client-ip",
            "x_real_ip",
            "x-original-url",
            "proxy",
            "content_length",
            "content-length",
            "x_own",
        ];
        let pairs = names.map(|name| (HeaderName::from_static(name), HeaderValue::from_static("1")));
        let mut headers = HeaderMap::from_iter(pairs);
        remove_claims(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "x_own"]);
    }
}
