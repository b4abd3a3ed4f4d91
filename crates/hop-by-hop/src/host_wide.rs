//! Headers of a response that apply to more than the response.

use http::HeaderMap;
use http::header::{ALT_SVC, HeaderName, STRICT_TRANSPORT_SECURITY};

/// The first three affect the browser's data and connections for the whole host name or domain. The others let a server
/// choose what a proxy in front of the forwarder sends instead: a file of the proxy, or the response of another server.
const HOST_WIDE: [HeaderName; 7] = [
    STRICT_TRANSPORT_SECURITY,
    ALT_SVC,
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("x-accel-redirect"),
    HeaderName::from_static("x-sendfile"),
    HeaderName::from_static("x-lighttpd-send-file"),
    HeaderName::from_static("x-reproxy-url"),
];

/// Removes headers of a server that must not act on the host name under which a forwarder shows it.
pub fn remove_host_wide(headers: &mut HeaderMap) {
    for name in HOST_WIDE {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn headers_for_the_host_and_its_proxy_are_removed() {
        let names = ["alt-svc", "clear-site-data", "x-accel-redirect", "x-sendfile", "x-accel-buffering"];
        let pairs = names.map(|name| (HeaderName::from_static(name), HeaderValue::from_static("1")));
        let mut headers = HeaderMap::from_iter(pairs);
        remove_host_wide(&mut headers);
        // A server of events asks for it. It applies only to the response.
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-accel-buffering"]);
    }
}
