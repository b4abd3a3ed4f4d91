//! Rewrites headers of requests to a server in a sandbox, and of its responses.
//!
//! A request reaches the server as `localhost`, which every development server accepts, and the preview's origin becomes
//! `http://localhost:<port>`. The public host name and scheme are in `x-forwarded-*`. The exception is a request from a page
//! of the preview: there, `x-forwarded-*` match the rewritten origin. A visitor's own headers of these names are removed.

use std::net::IpAddr;

use hop_by_hop::{is_upgrade, path_on_server};
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    REFERER, REFERRER_POLICY, TRAILER, UPGRADE,
};

use super::location;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Public side of a request: how the visitor reaches the preview.
#[derive(Debug, Clone)]
pub(super) struct RequestContext {
    /// Value of the Host header.
    pub(super) host: String,
    /// Whether a proxy in front of the gateway serves it over `https`.
    pub(super) is_https: bool,
    /// Address of the visitor, or of the proxy in front of the gateway if that is not one of the operator's.
    pub(super) visitor: IpAddr,
    /// Port in the sandbox.
    pub(super) port: u16,
}

impl RequestContext {
    /// Origin of the preview's pages.
    pub(super) fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.host)
    }

    fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }

    fn inner_origin(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    /// Rewrites a request's headers for the server.
    pub(super) fn to_sandbox(&self, headers: &mut HeaderMap) {
        let upgrade = headers.get(UPGRADE).cloned().filter(|_| is_upgrade(headers));
        hop_by_hop::strip(headers);
        hop_by_hop::remove_claims(headers);
        // The gateway itself handles `Expect`, and forwards no trailers.
        for name in [EXPECT, TRAILER] {
            headers.remove(name);
        }
        if let Some(protocol) = upgrade {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, protocol);
        }
        let (own, inner) = (self.origin(), self.inner_origin());
        let inner_host = format!("localhost:{}", self.port);
        let is_own = |origin: &HeaderValue| origin.as_bytes().eq_ignore_ascii_case(own.as_bytes());
        // A server that accepts only its own pages compares their origin with `x-forwarded-host`, so the two must match.
        let (host, scheme) = if headers.get(ORIGIN).is_some_and(is_own) {
            set(headers, ORIGIN, inner.clone());
            (inner_host.clone(), "http")
        } else {
            (self.host.clone(), self.scheme())
        };
        set(headers, HOST, inner_host);
        set(headers, X_FORWARDED_HOST, host);
        set(headers, X_FORWARDED_PROTO, scheme.into());
        set(headers, X_FORWARDED_FOR, self.visitor.to_string());
        // The host name may contain the link's token, and servers log the referrer.
        if let Some(path) = headers.get(REFERER).and_then(|from| path_after_origin(from, &own)) {
            set(headers, REFERER, format!("{inner}{path}"));
        }
    }

    /// Rewrites a response's headers for the visitor.
    pub(super) fn to_visitor(&self, headers: &mut HeaderMap) {
        let upgrade = headers.get(UPGRADE).cloned().filter(|_| is_upgrade(headers));
        hop_by_hop::strip(headers);
        // Some would outlive the preview, or affect other previews and the chat app. Trailers are not forwarded.
        hop_by_hop::remove_host_wide(headers);
        headers.remove(TRAILER);
        if let Some(protocol) = upgrade {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, protocol);
        }
        location::rewrite_redirects(headers, self.port);
        let allowed = headers.get(ACCESS_CONTROL_ALLOW_ORIGIN);
        if allowed.is_some_and(|origin| path_on_server(origin.as_bytes(), self.port) == Some(b"")) {
            set(headers, ACCESS_CONTROL_ALLOW_ORIGIN, self.origin());
        }
        // By default a browser sends other sites the origin, which may contain the link's token.
        headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    }
}

/// Returns the part of a URL after this origin. `None` if it has another origin.
fn path_after_origin(url: &HeaderValue, origin: &str) -> Option<String> {
    let url = url.to_str().ok()?;
    let (begin, rest) = url.split_at_checked(origin.len())?;
    let ends = rest.is_empty() || rest.starts_with(['/', '?', '#']);
    (ends && begin.eq_ignore_ascii_case(origin)).then(|| rest.to_owned())
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: String) {
    match HeaderValue::try_from(value) {
        Ok(value) => drop(headers.insert(name, value)),
        Err(_) => drop(headers.remove(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> RequestContext {
        RequestContext {
            host: "3000-x.localhost:8081".into(),
            is_https: false,
            visitor: [10, 0, 0, 7].into(),
            port: 3000,
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    fn get<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
        headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[test]
    fn a_request_reaches_the_server_as_localhost() {
        let mut sent = headers(&[
            ("host", "3000-x.localhost:8081"),
            ("origin", "http://3000-X.localhost:8081"),
            ("referer", "http://3000-x.localhost:8081/a?b"),
            ("x-forwarded-for", "1.2.3.4"),
            ("forwarded", "for=1.2.3.4"),
            ("connection", "keep-alive, x-private"),
            ("x-private", "1"),
            ("te", "trailers"),
        ]);
        example().to_sandbox(&mut sent);
        assert_eq!(get(&sent, "host"), "localhost:3000");
        assert_eq!(get(&sent, "origin"), "http://localhost:3000");
        assert_eq!(get(&sent, "referer"), "http://localhost:3000/a?b");
        assert_eq!(get(&sent, "x-forwarded-for"), "10.0.0.7");
        for gone in ["connection", "x-private", "te", "forwarded"] {
            assert_eq!(get(&sent, gone), "", "{gone}");
        }
    }

    #[test]
    fn a_visitor_cannot_forge_its_identity() {
        let mut sent = headers(&[
            ("x-forwarded-for", "1.2.3.4"),
            ("x_forwarded_for", "1.2.3.4"),
            ("x-forwarded-client-cert", "a"),
            ("x_forwarded-user", "admin"),
            ("x-client-ip", "1.2.3.4"),
            ("x_real_ip", "1.2.3.4"),
            ("x-original-url", "/admin"),
            ("proxy", "http://evil.example"),
            ("content_length", "3"),
            ("content-length", "5"),
            ("expect", "100-continue"),
            ("x_own", "kept"),
        ]);
        example().to_sandbox(&mut sent);
        let mut left: Vec<&str> = sent.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        let ours = ["host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];
        assert_eq!(left, [&["content-length"][..], &ours, &["x_own"]].concat());
        assert_eq!(get(&sent, "x-forwarded-for"), "10.0.0.7");
    }

    #[test]
    fn origin_and_forwarded_host_match() {
        let behind_a_proxy = RequestContext { is_https: true, ..example() };
        let forwarded = |mut sent: HeaderMap| {
            behind_a_proxy.to_sandbox(&mut sent);
            [ORIGIN, X_FORWARDED_HOST, X_FORWARDED_PROTO].map(|name| get(&sent, name.as_str()).to_owned())
        };
        assert_eq!(forwarded(HeaderMap::new()), ["", "3000-x.localhost:8081", "https"]);
        let own = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("https://3000-x.localhost:8081"))]);
        assert_eq!(forwarded(own), ["http://localhost:3000", "localhost:3000", "http"]);
        let other = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("https://localhost:3000"))]);
        assert_eq!(forwarded(other), ["https://localhost:3000", "3000-x.localhost:8081", "https"]);
    }

    #[test]
    fn the_origin_of_another_site_is_unchanged() {
        for other in ["http://evil.example", "http://3000-x.localhost:8081.evil.example", "null"] {
            let mut sent = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(other))]);
            example().to_sandbox(&mut sent);
            assert_eq!(get(&sent, "origin"), other);
        }
    }

    #[test]
    fn an_upgrade_is_kept() {
        let mut sent = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        example().to_sandbox(&mut sent);
        assert_eq!((get(&sent, "connection"), get(&sent, "upgrade")), ("upgrade", "websocket"));
        let mut alone = headers(&[("upgrade", "h2c")]);
        example().to_sandbox(&mut alone);
        assert_eq!(get(&alone, "upgrade"), "");
    }

    #[test]
    fn headers_that_affect_the_whole_host_are_removed() {
        let mut answered = headers(&[
            ("strict-transport-security", "max-age=1"),
            ("clear-site-data", "\"*\""),
            ("trailer", "clear-site-data"),
            ("x-accel-redirect", "/internal/secret"),
            ("access-control-allow-origin", "http://localhost:3000"),
        ]);
        example().to_visitor(&mut answered);
        for gone in ["strict-transport-security", "clear-site-data", "trailer", "x-accel-redirect"] {
            assert_eq!(get(&answered, gone), "", "{gone}");
        }
        assert_eq!(get(&answered, "access-control-allow-origin"), "http://3000-x.localhost:8081");
        assert_eq!(get(&answered, "referrer-policy"), "same-origin");
    }
}
