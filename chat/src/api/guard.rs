//! Checks of every request before anything else.
//!
//! A browser sends requests on behalf of any page. So a request for another host is rejected, because its name may
//! resolve to this machine only temporarily (DNS rebinding). A request that changes something must come from the
//! app's own page.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, HOST, HeaderName, HeaderValue, ORIGIN};
use http::{HeaderMap, Method, Uri};

use super::error::{Error, Result};
use super::{ACCESS_ROUTE, Api, page};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks every request.
pub(super) async fn check_all(State(api): State<Api>, request: Request, next: Next) -> Response {
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

fn admit(api: &Api, request: Request) -> Result<Request> {
    let odd =
        |problem: &str| Error::Invalid { field: "request", problem: format!("is ambiguous: {problem}") };
    listen::shape::check(&request).map_err(odd)?;
    if !check(&request, &api.settings.allowed_hosts) {
        return Err(Error::Foreign);
    }
    // That route counts failures itself, for apps without these guards.
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
    let Some(host) = host(headers, request.uri()) else {
        // An HTTP/1.0 request without a host is not from a browser.
        return request.method() == Method::GET;
    };
    is_ours(host, allowed) && (is_safe(request.method()) || is_own_page(headers, host))
}

/// Returns the host that a request names.
pub(super) fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let named = headers.get(HOST).map(|host| host.to_str().unwrap_or_default());
    named.or(uri.authority().map(|authority| authority.as_str()))
}

/// Whether the method changes nothing.
pub(super) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn is_ours(host: &str, allowed: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => {
            return rest.split_once(']').is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok());
        }
        None => host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase(),
    };
    // An address cannot be made to resolve elsewhere.
    name == "localhost" || name.parse::<Ipv4Addr>().is_ok() || allowed.contains(&name)
}

/// Whether the request comes from the app's own page. `sec-fetch-site` is trusted, because pages cannot set it. An
/// older browser sends the page's origin. A client that sends neither is not a browser.
pub(super) fn is_own_page(headers: &HeaderMap, host: &str) -> bool {
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

    fn responder(method: &str, headers: &[(&str, &str)]) -> bool {
        let request =
            headers.iter().fold(Request::builder().method(method).uri("/api/chats"), |it, (name, value)| {
                it.header(*name, *value)
            });
        check(&request.body(Body::empty()).unwrap(), &["chat.lan".to_owned()])
    }

    #[test]
    fn only_the_apps_hosts_are_allowed() {
        for host in [
            "localhost",
            "LOCALHOST:3000",
            "127.0.0.1:3000",
            "192.168.1.5",
            "[::1]:3000",
            "chat.lan",
            "Chat.lan:80",
        ] {
            assert!(responder("GET", &[("host", host)]), "{host}");
        }
        for host in ["evil.example", "chat.lan.evil.example", "localhost.evil.example", "[evil]", "1.2.3", ""]
        {
            assert!(!responder("GET", &[("host", host)]), "{host}");
        }
    }

    #[test]
    fn only_the_apps_own_page_may_change_anything() {
        let host = ("host", "localhost:3000");
        for own in [
            &[host][..],
            &[host, ("origin", "http://localhost:3000")],
            &[host, ("origin", "http://localhost:5173"), ("sec-fetch-site", "same-origin")],
            &[host, ("sec-fetch-site", "none")],
        ] {
            assert!(responder("POST", own), "{own:?}");
        }
        for other in [
            &[host, ("origin", "http://localhost:42000")][..],
            &[host, ("origin", "null")],
            &[host, ("origin", "https://evil.example")],
            &[host, ("sec-fetch-site", "same-site")],
            &[host, ("sec-fetch-site", "cross-site"), ("origin", "http://localhost:3000")],
        ] {
            for method in ["POST", "PUT", "PATCH", "DELETE"] {
                assert!(!responder(method, other), "{method} {other:?}");
            }
            assert!(
                responder("GET", other),
                "a read changes nothing, and other pages cannot see its response"
            );
        }
        assert!(!responder("POST", &[]));
    }
}
