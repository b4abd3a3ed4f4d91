//! Who may ask: whoever has the admin token.
//!
//! The routes a browser opens by itself also take it as the password of HTTP Basic, and no others do: a browser
//! adds a password it was told once to whatever any page makes it send.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sandbox_api::TOKEN_HEADER;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::ApiState;
use super::error::{ApiError, DoorError};
use super::server::Peer;

/// Routes that anyone may ask.
const OPEN: [&str; 2] = ["/v1/health", "/v1/ready"];

/// What makes a browser ask its user for a password (RFC 7617).
const CHALLENGE: HeaderValue = HeaderValue::from_static(r#"Basic realm="sandboxd", charset="UTF-8""#);

/// Whether anyone may ask for this path.
pub(super) fn is_open(path: &str) -> bool {
    OPEN.contains(&path)
}

/// Whether this path is one that a browser opens by itself.
pub(super) fn is_for_browsers(path: &str) -> bool {
    matches!(path, "/openapi.json" | "/docs") || path.starts_with("/docs/")
}

/// Lets a request through that has the token.
pub(super) async fn check(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let by_browser = is_for_browsers(path);
    let given = given(request.headers(), by_browser);
    if is_open(path) || is_token(&given, state.token.expose_secret()) {
        drop(given);
        return next.run(request).await;
    }
    state.service.metrics().auth_failed();
    // Without any token nothing was guessed: a caller that has yet to be set up.
    let counted = if given.is_empty() { Ok(()) } else { state.throttle.failed(peer_of(&request)) };
    let refusal = match counted {
        Ok(()) => DoorError::Unauthenticated,
        Err(wait) => DoorError::TooManyFailures { retry_after: wait.as_secs() + 1 },
    };
    let mut response = ApiError::from(refusal).into_response();
    if by_browser {
        response.headers_mut().insert(WWW_AUTHENTICATE, CHALLENGE);
    }
    response
}

/// Where the request came from. The server tells of every one; what it does not tell of is counted together.
fn peer_of(request: &Request) -> IpAddr {
    request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0)
}

/// The token of a request. A wrong one in our own header is not rescued by a right bearer.
fn given(headers: &HeaderMap, by_browser: bool) -> Cow<'_, [u8]> {
    let own = headers.get(TOKEN_HEADER).map(|value| value.as_bytes().trim_ascii());
    if let Some(token) = own.filter(|token| !token.is_empty()) {
        return token.into();
    }
    let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    match (bearer(authorization), by_browser) {
        (Some(token), _) => token.into(),
        (None, true) => password(authorization).unwrap_or_default().into(),
        (None, false) => Cow::default(),
    }
}

/// What follows the scheme, whose letters may be of any case (RFC 9110 section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The password, whoever the user is.
fn password(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, credentials) = value.split_at_checked(6)?;
    let credentials = scheme.eq_ignore_ascii_case(b"basic ").then(|| credentials.trim_ascii())?;
    let credentials = BASE64_STANDARD.decode(credentials).ok()?;
    let colon = credentials.iter().position(|byte| *byte == b':')?;
    Some(credentials[colon + 1..].to_vec())
}

/// Compares digests, which have one length, so that not even the length of the token shows in the time.
fn is_token(given: &[u8], token: &str) -> bool {
    !given.is_empty() && Sha256::digest(given).ct_eq(&Sha256::digest(token.as_bytes())).into()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(own: Option<&str>, authorization: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: Option<&str>| {
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_str(value).unwrap());
            }
        };
        set(TOKEN_HEADER, own);
        set("authorization", authorization);
        is_token(&given(&headers, false), "secret")
    }

    fn check_browser(authorization: &str) -> bool {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap())]);
        is_token(&given(&headers, true), "secret")
    }

    #[test]
    fn a_browser_may_give_it_as_a_password() {
        let basic = |credentials: &str| format!("Basic {}", BASE64_STANDARD.encode(credentials));
        assert!(check_browser(&basic("anyone:secret")));
        assert!(check_browser(&basic(":secret").replace("Basic", "bAsIc ")));
        assert!(check_browser("Bearer secret"));
        for wrong in ["secret", "secret:", "secret:wrong", "a:secret:", "a:b:secret", "", ":"] {
            assert!(!check_browser(&basic(wrong)), "{wrong}");
        }
        assert!(!check_browser("Basic secret"));
        assert!(!check(None, Some(&basic("anyone:secret"))), "on another route");
    }

    #[test]
    fn the_token_is_taken_from_either_header() {
        assert!(check(Some("secret"), None));
        assert!(check(Some(" secret "), Some("Bearer wrong")));
        assert!(check(None, Some("Bearer secret")));
        assert!(check(None, Some("bEaReR  secret")));
        assert!(check(Some(" "), Some("Bearer secret")));
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(!check(None, None));
        assert!(!check(Some("wrong"), Some("Bearer secret")));
        assert!(!check(Some("secre"), None));
        assert!(!check(Some("secrets"), None));
        assert!(!check(None, Some("Basic secret")));
        assert!(!check(None, Some("secret")));
        assert!(!check(None, Some("Bearer ")));
    }
}
