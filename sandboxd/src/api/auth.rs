//! Who may ask: whoever has the admin token.

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sandbox_api::TOKEN_HEADER;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::ApiState;
use super::error::{ApiError, DoorError};
use super::throttle::Peer;

/// Routes that anyone may ask.
pub(super) const OPEN: [&str; 2] = ["/v1/health", "/v1/ready"];

/// Lets a request through that has the token.
pub(super) async fn check(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let open = OPEN.contains(&request.uri().path());
    let given = given(request.headers());
    if open || is_token(given, state.token.expose_secret()) {
        return next.run(request).await;
    }
    state.service.metrics().auth_failed();
    // Without any token nothing was guessed: a caller that has yet to be set up.
    let counted = if given.is_empty() { Ok(()) } else { state.throttle.failed(peer_of(&request)) };
    let refusal = match counted {
        Ok(()) => DoorError::Unauthenticated,
        Err(wait) => DoorError::TooManyFailures { retry_after: wait.as_secs() + 1 },
    };
    ApiError::from(refusal).into_response()
}

/// Where the request came from. The server tells of every one; what it does not tell of is counted together.
fn peer_of(request: &Request) -> IpAddr {
    request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0)
}

/// The token of a request. A wrong one in our own header is not rescued by a right bearer.
fn given(headers: &HeaderMap) -> &[u8] {
    let own = headers.get(TOKEN_HEADER).map(|value| value.as_bytes().trim_ascii());
    if let Some(token) = own.filter(|token| !token.is_empty()) {
        return token;
    }
    headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes())).unwrap_or_default()
}

/// What follows the scheme, whose letters may be of any case (RFC 9110 section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
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
        is_token(given(&headers), "secret")
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
