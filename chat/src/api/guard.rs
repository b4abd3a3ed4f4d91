//! Who may ask at all, before anything else is looked at.
//!
//! A browser sends what any page tells it to. So a request for a host that is not this app's is refused (its name may lead here
//! only for a moment, which is DNS rebinding), and one that changes something must come from this app's own page. Then the access
//! policy of the tools decides about the chats, too: what a sandbox answered is in them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, HOST, HeaderName, HeaderValue, ORIGIN};
use http::{HeaderMap, Method};
use listen::slot::ConnectionSlot;

use super::error::{Error, Result};
use super::{ACCESS_ROUTE, Api, page};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Of every request.
pub(super) async fn of_all(State(api): State<Api>, request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = match admit(&api, request) {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    page::harden(response.headers_mut());
    if is_api {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Of what only those may ask who may use the tools.
pub(super) async fn of_private(State(api): State<Api>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    if !api.gates.admits(&parts) {
        return Error::Unauthorized.into_response();
    }
    if let Some(slot) = parts.extensions.get::<Arc<ConnectionSlot>>() {
        slot.mark_authenticated();
    }
    next.run(Request::from_parts(parts, body)).await
}

fn admit(api: &Api, request: Request) -> Result<Request> {
    let odd = |problem: &str| Error::Invalid {
        field: "request",
        problem: format!("cannot be read in one way: {problem}"),
    };
    listen::shape::check(&request).map_err(odd)?;
    if !check(&request, &api.settings.allowed_hosts) {
        return Err(Error::Foreign);
    }
    // That route counts them itself, for apps without these guards.
    if request.uri().path() == ACCESS_ROUTE {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let counted = api.gates.count_wrong_token(&parts);
    counted.map_err(|wait| Error::TooManyTokens(wait.as_secs() + 1))?;
    Ok(Request::from_parts(parts, body))
}

fn check(request: &Request, allowed: &[String]) -> bool {
    let headers = request.headers();
    let named = headers.get(HOST).map(|host| host.to_str().unwrap_or_default());
    let Some(host) = named.or(request.uri().authority().map(|it| it.as_str())) else {
        // HTTP/1.0 without a host is no browser's.
        return request.method() == Method::GET;
    };
    is_ours(host, allowed) && (is_safe(request.method()) || is_own_page(headers, host))
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn is_ours(host: &str, allowed: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => {
            return rest.split_once(']').is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok());
        }
        None => host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase(),
    };
    // An address cannot be made to lead somewhere else.
    name == "localhost" || name.parse::<Ipv4Addr>().is_ok() || allowed.contains(&name)
}

/// A browser that says how it came to the request is believed, because pages cannot say it. An older one says of which origin the
/// page is; what says neither is no browser.
fn is_own_page(headers: &HeaderMap, host: &str) -> bool {
    if let Some(site) = headers.get(FETCH_SITE) {
        return site == "same-origin" || site == "none";
    }
    headers.get_all(ORIGIN).iter().all(|origin| {
        let origin = origin.to_str().unwrap_or_default();
        let of = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
        of.is_some_and(|of| of.eq_ignore_ascii_case(host))
    })
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn asked(method: &str, headers: &[(&str, &str)]) -> bool {
        let request =
            headers.iter().fold(Request::builder().method(method).uri("/api/chats"), |it, (name, value)| {
                it.header(*name, *value)
            });
        check(&request.body(Body::empty()).unwrap(), &["chat.lan".to_owned()])
    }

    #[test]
    fn only_this_app_s_hosts_are_answered() {
        for host in [
            "localhost",
            "LOCALHOST:3000",
            "127.0.0.1:3000",
            "192.168.1.5",
            "[::1]:3000",
            "chat.lan",
            "Chat.lan:80",
        ] {
            assert!(asked("GET", &[("host", host)]), "{host}");
        }
        for host in ["evil.example", "chat.lan.evil.example", "localhost.evil.example", "[evil]", "1.2.3", ""]
        {
            assert!(!asked("GET", &[("host", host)]), "{host}");
        }
    }

    #[test]
    fn only_its_own_page_changes_something() {
        let host = ("host", "localhost:3000");
        for own in [
            &[host][..],
            &[host, ("origin", "http://localhost:3000")],
            &[host, ("origin", "http://localhost:5173"), ("sec-fetch-site", "same-origin")],
            &[host, ("sec-fetch-site", "none")],
        ] {
            assert!(asked("POST", own), "{own:?}");
        }
        for other in [
            &[host, ("origin", "http://localhost:42000")][..],
            &[host, ("origin", "null")],
            &[host, ("origin", "https://evil.example")],
            &[host, ("sec-fetch-site", "same-site")],
            &[host, ("sec-fetch-site", "cross-site"), ("origin", "http://localhost:3000")],
        ] {
            for method in ["POST", "PUT", "PATCH", "DELETE"] {
                assert!(!asked(method, other), "{method} {other:?}");
            }
            assert!(asked("GET", other), "to look is no change, and its answer is nobody else's to read");
        }
        assert!(!asked("POST", &[]));
    }
}
