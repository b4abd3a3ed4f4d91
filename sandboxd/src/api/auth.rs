//! Authentication with the admin token, a project token or a tool token.
//!
//! A request carries the token in `x-remcochat-admin-token`, as a bearer token in `Authorization`, or in both. Every
//! token given must be right, and each header may occur only once. Otherwise a proxy that reads the first header and
//! a server that reads the last could see different clients. Routes that a browser opens directly also accept the
//! token as the HTTP Basic password. No other route does, because a browser adds a stored password to any request
//! that a page makes.
//!
//! Tool tokens (`SANDBOXD_TOOL_TOKENS_FILE`) are valid for surfaces, and for the requests that a surface sends.
//!
//! A WebSocket of the open-terminal surface carries the token in its first message. The surface checks it with
//! [`check_late`] and bounds what a client can use before.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{Extensions, HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hop_by_hop::is_upgrade;
use jiff::Timestamp;
use listen::slot::ConnectionSlot;
use sandbox_api::TOKEN_HEADER;

use super::ApiState;
use super::error::{ApiError, HttpError};
use super::server::Peer;
use crate::model::principal::Root;
use crate::model::{AdminToken, Principal};

/// Routes that need no token.
const OPEN: [&str; 3] = ["/v1/health", "/v1/ready", "/open-terminal/health"];

/// Routes of the open-terminal surface.
pub(super) const OPEN_TERMINAL: &str = "/open-terminal";

/// Challenge that makes a browser ask for a password (RFC 7617).
const CHALLENGE: HeaderValue = HeaderValue::from_static(r#"Basic realm="sandboxd", charset="UTF-8""#);

/// Paths at which MCP clients look for an OAuth server (RFC 8414, RFC 9728). There is none. Clients take a 401 for a
/// broken one, and a 404 for its absence.
const OAUTH_PATHS: &str = "/.well-known/oauth-";

/// Challenge for clients of surfaces (RFC 6750).
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");

/// Marks a request that a surface sends for its caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfSurface;

/// Whether the path needs no token.
pub(super) fn is_open(path: &str) -> bool {
    OPEN.contains(&path) || path.starts_with(OAUTH_PATHS)
}

/// Whether the path belongs to a surface, where tool tokens are valid.
fn is_surface(path: &str) -> bool {
    path == "/mcp" || path.starts_with("/mcp/") || path.starts_with("/tools/") || is_open_terminal(path)
}

/// Whether the path belongs to the open-terminal surface.
pub(super) fn is_open_terminal(path: &str) -> bool {
    path.strip_prefix(OPEN_TERMINAL).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether the request opens a WebSocket whose first message has the token.
fn is_late(request: &Request) -> bool {
    let path = request.uri().path().strip_prefix(OPEN_TERMINAL);
    let terminal = path.and_then(|path| path.strip_prefix("/api/terminals/"));
    let is_terminal = terminal.is_some_and(|id| !id.is_empty() && !id.contains('/'));
    is_terminal && request.method() == Method::GET && is_upgrade(request.headers())
}

/// Whether a browser opens the path directly.
pub(super) fn is_for_browsers(path: &str) -> bool {
    matches!(path, "/openapi.json" | "/docs") || path.starts_with("/docs/")
}

/// Rejects a request without a valid token.
pub(super) async fn check(State(state): State<ApiState>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let (by_browser, by_surface) = (is_for_browsers(path), is_surface(path));
    let given = Given::of(request.headers(), by_browser);
    let takes_tool_tokens = by_surface || request.extensions().get::<OfSurface>().is_some();
    let principal = given.principal(&state).filter(|found| takes_tool_tokens || !found.is_for_tools);
    let principal = principal.filter(|found| note(&state, request.extensions(), found));
    if is_open(path) || principal.is_some() || (given.is_nothing() && is_late(&request)) {
        drop(given);
        if let Some(principal) = principal {
            request.extensions_mut().insert(principal);
        }
        return next.run(request).await;
    }
    state.service.metrics().auth_failed();
    // A request without any token is not a guess, so it does not count as a failure.
    let counted =
        if given.is_nothing() { Ok(()) } else { state.throttle.failed(peer_of(request.extensions())) };
    let refusal = match counted {
        Ok(()) => HttpError::Unauthenticated,
        Err(wait) => HttpError::TooManyFailures { retry_after: wait.as_secs() + 1 },
    };
    let mut response = ApiError::from(refusal).into_response();
    if by_browser {
        response.headers_mut().insert(WWW_AUTHENTICATE, CHALLENGE);
    } else if by_surface {
        response.headers_mut().insert(WWW_AUTHENTICATE, BEARER);
    }
    response
}

/// Checks a token that a surface received after the head of a request, and returns its principal. `of` are the extensions of
/// the request. The result reveals only that a token is wrong, so failures are counted and not delayed.
pub(super) fn check_late(state: &ApiState, of: &Extensions, token: &str) -> Option<Arc<Principal>> {
    let given = Given { tokens: vec![token.as_bytes().into()], is_repeated: false };
    let principal = if token.is_empty() { None } else { given.principal(state) };
    let principal = principal.filter(|found| note(state, of, found));
    if principal.is_none() {
        state.service.metrics().auth_failed();
        // The response is the same whether or not the client has used up its guesses.
        let _ = state.throttle.failed(peer_of(of));
    }
    principal
}

/// Notes on the connection of a request whose it is. Returns false if the principal is not admitted any more: its
/// connections may have been closed before this one was noted.
fn note(state: &ApiState, of: &Extensions, principal: &Arc<Principal>) -> bool {
    let slot = of.get::<Arc<ConnectionSlot>>();
    // The operator's own tokens end with the daemon.
    let can_end = !principal.is_operator && principal.root != Root::ToolToken;
    if let Some(slot) = slot {
        slot.mark_authenticated();
        if can_end {
            state.connections.note(principal, slot);
        } else {
            state.connections.keep(slot);
        }
    }
    !can_end || state.service.projects().admits(principal)
}

/// Address of the client. Requests without one share a single counter.
pub(super) fn peer_of(of: &Extensions) -> IpAddr {
    of.get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0)
}

/// Returns the token of a request that passed the check. If it has two, they are the same.
pub(super) fn token_of(headers: &HeaderMap) -> Option<String> {
    let given = Given::of(headers, false);
    given.tokens.first().map(|token| String::from_utf8_lossy(token).into_owned())
}

/// Tokens that a request carries.
#[derive(Debug)]
struct Given<'a> {
    tokens: Vec<Cow<'a, [u8]>>,
    /// Whether a header for the token occurs more than once.
    is_repeated: bool,
}

impl<'a> Given<'a> {
    fn of(headers: &'a HeaderMap, by_browser: bool) -> Self {
        let own = headers.get(TOKEN_HEADER).map(|value| value.as_bytes().trim_ascii().into());
        let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        // Credentials of another scheme are meant for a proxy in front of the daemon.
        let authorization = match bearer(authorization) {
            Some(token) => Some(token.into()),
            None => password(authorization).filter(|_| by_browser).map(Cow::Owned),
        };
        let tokens = [own, authorization].into_iter().flatten();
        let is_repeated = |name: &str| headers.get_all(name).iter().nth(1).is_some();
        Self {
            tokens: tokens.filter(|token: &Cow<'_, [u8]>| !token.is_empty()).collect(),
            is_repeated: is_repeated(TOKEN_HEADER) || is_repeated(AUTHORIZATION.as_str()),
        }
    }

    fn is_nothing(&self) -> bool {
        self.tokens.is_empty() && !self.is_repeated
    }

    /// Principal of the token, if the request has one and no other.
    fn principal(&self, state: &ApiState) -> Option<Arc<Principal>> {
        if self.is_right(&state.token) {
            return Some(Arc::clone(&state.operator));
        }
        if self.is_repeated {
            return None;
        }
        let first = self.tokens.first()?;
        if let Some(found) = state.service.projects().principal_of(first) {
            return self.tokens.iter().all(|other| other == first).then_some(found);
        }
        let now = Timestamp::now();
        let mut names = self.tokens.iter().map(|given| state.tool_tokens.name_of(given, now));
        let name = names.next()??;
        names.all(|other| other == Some(name)).then(|| Arc::new(Principal::of_tool_token(name)))
    }

    fn is_right(&self, token: &AdminToken) -> bool {
        // All tokens are compared, so that the time does not reveal which one is wrong.
        let wrong = self.tokens.iter().filter(|given| !token.is(given)).count();
        !self.is_repeated && !self.tokens.is_empty() && wrong == 0
    }
}

/// Token after the scheme, which is case-insensitive (RFC 9110 section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Password, for any user name.
fn password(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, credentials) = value.split_at_checked(6)?;
    let credentials = scheme.eq_ignore_ascii_case(b"basic ").then(|| credentials.trim_ascii())?;
    let credentials = BASE64_STANDARD.decode(credentials).ok()?;
    let colon = credentials.iter().position(|byte| *byte == b':')?;
    Some(credentials[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn is_right(headers: &HeaderMap, by_browser: bool) -> bool {
        Given::of(headers, by_browser).is_right(&AdminToken::new(&"secret".into()))
    }

    fn check(own: Option<&str>, authorization: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: Option<&str>| {
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_str(value).unwrap());
            }
        };
        set(TOKEN_HEADER, own);
        set("authorization", authorization);
        is_right(&headers, false)
    }

    fn check_browser(authorization: &str) -> bool {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap())]);
        is_right(&headers, true)
    }

    #[test]
    fn a_browser_may_send_the_token_as_a_password() {
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
        assert!(check(Some(" secret "), Some("Bearer secret")));
        assert!(check(None, Some("Bearer secret")));
        assert!(check(None, Some("bEaReR  secret")));
        assert!(check(Some(" "), Some("Bearer secret")));
        assert!(check(Some("secret"), Some("Basic of-a-proxy")));
    }

    #[test]
    fn every_token_of_a_request_must_be_right() {
        assert!(!check(Some("secret"), Some("Bearer wrong")));
        assert!(!check(Some("wrong"), Some("Bearer secret")));
        for name in [TOKEN_HEADER, "authorization"] {
            let mut headers = HeaderMap::new();
            headers.append(TOKEN_HEADER, HeaderValue::from_static("secret"));
            headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
            assert!(is_right(&headers, false));
            headers.append(name, headers[name].clone());
            assert!(!is_right(&headers, false), "{name} comes twice");
        }
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Basic OndyZG8="))]);
        headers.insert(TOKEN_HEADER, HeaderValue::from_static("secret"));
        assert!(!is_right(&headers, true), "a browser's password counts where it may be the token");
    }

    #[test]
    fn other_credentials_are_rejected() {
        assert!(!check(None, None));
        assert!(!check(Some("wrong"), Some("Bearer secret")));
        assert!(!check(Some("secre"), None));
        assert!(!check(Some("secrets"), None));
        assert!(!check(None, Some("Basic secret")));
        assert!(!check(None, Some("secret")));
        assert!(!check(None, Some("Bearer ")));
    }
}
