//! What a server in a sandbox is told of its visitor, and what a visitor is told by it.
//!
//! To the server the gateway is its own machine: it is asked as `localhost`, which every development server lets in,
//! and pages of the preview's origin are pages of `http://localhost:<port>`. How it is really found is in
//! `x-forwarded-*`, but for requests that say they come from such a page: those tell one story throughout. What a
//! visitor brought of those names is not believed.

use std::net::IpAddr;

use hop_by_hop::is_upgrade;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ALT_SVC, CONNECTION, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue,
    LOCATION, ORIGIN, REFERER, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, TRAILER, UPGRADE,
};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// How a visitor sees a preview.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The Host header.
    pub(super) host: String,
    /// Whether a front makes it `https`.
    pub(super) is_https: bool,
    /// The visitor's address, or that of the front.
    pub(super) visitor: IpAddr,
    /// In the sandbox.
    pub(super) port: u16,
}

impl Seen {
    /// The preview's origin, as its pages have it.
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
        for name in [
            FORWARDED,
            X_FORWARDED_FOR,
            X_FORWARDED_HOST,
            X_FORWARDED_PROTO,
            X_FORWARDED_PORT,
            X_REAL_IP,
            TRAILER,
        ] {
            headers.remove(name);
        }
        if let Some(protocol) = upgrade {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, protocol);
        }
        let (own, inner) = (self.origin(), self.inner_origin());
        let inner_host = format!("localhost:{}", self.port);
        let is_own = |origin: &HeaderValue| origin.as_bytes().eq_ignore_ascii_case(own.as_bytes());
        // Who lets in only pages of its own compares their origin with the host it is told first, and that is this one.
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
        // The name may be all that keeps others out of the preview, and servers log where visitors came from.
        if let Some(path) = headers.get(REFERER).and_then(|from| path_beneath(from, &own)) {
            set(headers, REFERER, format!("{inner}{path}"));
        }
    }

    /// Rewrites an answer's headers for the visitor.
    pub(super) fn to_visitor(&self, headers: &mut HeaderMap) {
        let upgrade = headers.get(UPGRADE).cloned().filter(|_| is_upgrade(headers));
        hop_by_hop::strip(headers);
        // They are about the name `localhost`, and would outlive the preview.
        for name in [STRICT_TRANSPORT_SECURITY, ALT_SVC] {
            headers.remove(name);
        }
        if let Some(protocol) = upgrade {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, protocol);
        }
        let inner = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:{}", self.port));
        let path = |value: &HeaderValue| inner.iter().find_map(|inner| path_beneath(value, inner));
        if let Some(path) = headers.get(LOCATION).and_then(path) {
            set(headers, LOCATION, if path.starts_with('/') { path } else { format!("/{path}") });
        }
        let allowed = headers.get(ACCESS_CONTROL_ALLOW_ORIGIN).and_then(path);
        if allowed.is_some_and(|path| path.is_empty()) {
            set(headers, ACCESS_CONTROL_ALLOW_ORIGIN, self.origin());
        }
        // By default a browser tells other sites the origin, in which the link's token may be.
        headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    }
}

/// What follows an origin in a URL, if it is one of that origin.
fn path_beneath(url: &HeaderValue, origin: &str) -> Option<String> {
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

    fn seen() -> Seen {
        Seen {
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
    fn a_server_is_asked_as_its_own_machine() {
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
        seen().to_sandbox(&mut sent);
        assert_eq!(get(&sent, "host"), "localhost:3000");
        assert_eq!(get(&sent, "origin"), "http://localhost:3000");
        assert_eq!(get(&sent, "referer"), "http://localhost:3000/a?b");
        assert_eq!(get(&sent, "x-forwarded-for"), "10.0.0.7");
        for gone in ["connection", "x-private", "te", "forwarded"] {
            assert_eq!(get(&sent, gone), "", "{gone}");
        }
    }

    #[test]
    fn a_server_is_told_one_host_by_origin_and_forwarded_host() {
        let behind_a_front = Seen { is_https: true, ..seen() };
        let forwarded = |mut sent: HeaderMap| {
            behind_a_front.to_sandbox(&mut sent);
            [ORIGIN, X_FORWARDED_HOST, X_FORWARDED_PROTO].map(|name| get(&sent, name.as_str()).to_owned())
        };
        assert_eq!(forwarded(HeaderMap::new()), ["", "3000-x.localhost:8081", "https"]);
        let own = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("https://3000-x.localhost:8081"))]);
        assert_eq!(forwarded(own), ["http://localhost:3000", "localhost:3000", "http"]);
        let other = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("https://localhost:3000"))]);
        assert_eq!(forwarded(other), ["https://localhost:3000", "3000-x.localhost:8081", "https"]);
    }

    #[test]
    fn another_sites_page_is_told_as_it_is() {
        for other in ["http://evil.example", "http://3000-x.localhost:8081.evil.example", "null"] {
            let mut sent = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(other))]);
            seen().to_sandbox(&mut sent);
            assert_eq!(get(&sent, "origin"), other);
        }
    }

    #[test]
    fn an_upgrade_stays_one() {
        let mut sent = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        seen().to_sandbox(&mut sent);
        assert_eq!((get(&sent, "connection"), get(&sent, "upgrade")), ("upgrade", "websocket"));
        let mut alone = headers(&[("upgrade", "h2c")]);
        seen().to_sandbox(&mut alone);
        assert_eq!(get(&alone, "upgrade"), "");
    }

    #[test]
    fn a_redirect_stays_in_the_preview() {
        for (said, wanted) in [
            ("http://localhost:3000/a", "/a"),
            ("http://127.0.0.1:3000", "/"),
            ("http://localhost:3000?q", "/?q"),
            ("/b", "/b"),
            ("http://localhost:30001/a", "http://localhost:30001/a"),
            ("https://elsewhere.example/", "https://elsewhere.example/"),
        ] {
            let mut answered = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(said))]);
            seen().to_visitor(&mut answered);
            assert_eq!(get(&answered, "location"), wanted);
        }
    }

    #[test]
    fn a_visitor_is_not_tied_to_the_servers_name() {
        let mut answered = headers(&[
            ("strict-transport-security", "max-age=1"),
            ("access-control-allow-origin", "http://localhost:3000"),
        ]);
        seen().to_visitor(&mut answered);
        assert_eq!(get(&answered, "strict-transport-security"), "");
        assert_eq!(get(&answered, "access-control-allow-origin"), "http://3000-x.localhost:8081");
        assert_eq!(get(&answered, "referrer-policy"), "same-origin");
    }
}
