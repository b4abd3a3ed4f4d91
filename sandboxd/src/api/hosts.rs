//! Checks the `Host` and `Origin` headers.
//!
//! A web page can make a browser connect to this machine under the page's own name (DNS rebinding), or send it simple
//! requests. An IP address cannot be rebound, so any is accepted as a host. A name must be known. A page's origin
//! must be the daemon's own.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::{ApiError, HttpError};

/// Host names of the daemon.
#[derive(Debug)]
pub(super) struct Hosts {
    names: Vec<String>,
}

impl Hosts {
    pub(super) fn new(names: Vec<String>) -> Self {
        Self { names }
    }

    fn check(&self, headers: &HeaderMap) -> Result<(), HttpError> {
        let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        // HTTP/1.1 requires the header (RFC 9112 section 3.2). A client without it is not a browser.
        let host = text(HOST).unwrap_or_default().to_ascii_lowercase();
        if !host.is_empty() && !self.knows(without_port(&host)) {
            return Err(HttpError::Host(host));
        }
        match text(ORIGIN) {
            Some(origin) if !is_own(&origin.to_ascii_lowercase(), &host) => {
                Err(HttpError::Origin(origin.into_owned()))
            }
            _ => Ok(()),
        }
    }

    fn knows(&self, host: &str) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = host.strip_suffix('.').unwrap_or(host);
        bare.parse::<std::net::IpAddr>().is_ok() || self.names.iter().any(|known| known == name)
    }
}

/// Rejects requests that are ambiguous, or have an unknown host or a foreign origin.
pub(super) async fn check(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    let shape = listen::shape::check(&request).map_err(HttpError::Shape);
    match shape.and_then(|()| hosts.check(request.headers())) {
        Ok(()) => next.run(request).await,
        Err(error) => ApiError::from(error).into_response(),
    }
}

/// Host name by which the client reached this daemon.
pub(super) fn of(headers: &HeaderMap) -> Option<&str> {
    headers.get(HOST)?.to_str().ok().map(without_port)
}

/// Removes the port from a host header.
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

fn is_own(origin: &str, host: &str) -> bool {
    let address = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    address.is_some_and(|address| address == host)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(host: &str, origin: Option<&str>) -> bool {
        let hosts = Hosts::new(vec!["localhost".into(), "box.lan".into()]);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        hosts.check(&headers).is_ok()
    }

    #[test]
    fn addresses_and_known_names_are_accepted() {
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:8080", "box.lan:1", "[::1]:8080", "box.lan."] {
            assert!(check(host, None), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example"] {
            assert!(!check(host, None), "{host}");
        }
    }

    #[test]
    fn a_page_of_another_origin_is_rejected() {
        assert!(check("localhost:8080", Some("http://localhost:8080")));
        for origin in ["http://localhost:3000", "https://evil.example", "null", "http://localhost:8080.evil"]
        {
            assert!(!check("localhost:8080", Some(origin)), "{origin}");
        }
    }
}
