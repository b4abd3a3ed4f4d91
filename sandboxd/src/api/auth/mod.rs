//! Authentication: with the admin token, a project token, a child token, a JSON Web Token, a tool token or by a trusted
//! front.
//!
//! A request carries the token in `x-remcochat-admin-token`, as a bearer token in `Authorization`, or in both. Every
//! token given must be right, and each header may occur only once. Otherwise a proxy that reads the first header and
//! a server that reads the last could see different clients. Routes that a browser opens directly also accept the
//! token as the HTTP Basic password. No other route does, because a browser adds a stored password to any request
//! that a page makes.
//!
//! Tool tokens (`SANDBOXD_TOOL_TOKENS_FILE`) are valid for surfaces, and for the requests that a surface sends.
//!
//! The admin surface has sessions of its own, with a cookie that no other route accepts. It checks the token of a new session
//! with [`check_late`], and its requests of the API carry the session's token.
//!
//! A WebSocket of the open-terminal surface carries the token in its first message. The surface checks it with
//! [`check_late`] and bounds what a client can use before.

mod given;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hop_by_hop::is_upgrade;
use listen::slot::ConnectionSlot;
use surface_caller::WrongToken;

use self::given::Given;
use super::ApiState;
use super::client_address::{OfSurface, peer_of};
use super::error::{ApiError, HttpError};
use super::tickets::Tickets;
use crate::model::Principal;
use crate::model::principal::Root;

/// Routes that need no token.
const OPEN: [&str; 3] = ["/v1/health", "/v1/ready", "/open-terminal/health"];

/// Routes of the open-terminal surface.
pub(super) const OPEN_TERMINAL: &str = "/open-terminal";

/// Pages of the admin surface.
pub(super) const ADMIN: &str = "/admin";

/// Challenge that makes a browser ask for a password (RFC 7617).
const CHALLENGE: HeaderValue = HeaderValue::from_static(r#"Basic realm="sandboxd", charset="UTF-8""#);

/// Paths at which MCP clients look for an OAuth server (RFC 8414, RFC 9728). There is none. Clients take a 401 for a
/// broken one, and a 404 for its absence.
const OAUTH_PATHS: &str = "/.well-known/oauth-";

/// Challenge for clients of surfaces (RFC 6750).
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");

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

/// Whether the path belongs to the admin surface, which checks its sessions itself.
fn is_admin(path: &str) -> bool {
    path.strip_prefix(ADMIN).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
    if state.admin_page && is_admin(path) {
        // Tokens in its headers count neither as valid nor as wrong: a browser may add a stored password.
        return next.run(request).await;
    }
    let (by_browser, by_surface) = (is_for_browsers(path), is_surface(path));
    let given = Given::of(request.headers(), by_browser);
    let takes_tool_tokens = by_surface || request.extensions().get::<OfSurface>().is_some();
    let principal = given.principal(&state, request.headers(), request.extensions()).await;
    let has_ticket = given.is_nothing() && Tickets::is_in(&request);
    let principal = if has_ticket { state.tickets.redeem(&request) } else { principal };
    let principal = principal.filter(|found| takes_tool_tokens || !found.is_for_tools);
    let principal = principal.filter(|found| note(&state, request.extensions(), found));
    if is_open(path) || principal.is_some() || (given.is_nothing() && is_late(&request)) {
        drop(given);
        if let Some(principal) = principal {
            request.extensions_mut().insert(principal);
        }
        return next.run(request).await;
    }
    state.service.metrics().auth_failed();
    state.service.audit().count_auth_failure(peer_of(request.extensions()));
    // A request without any token is not a guess, so it does not count as a failure.
    let counted = if given.is_nothing() && !has_ticket {
        Ok(())
    } else {
        state.throttle.failed(peer_of(request.extensions()))
    };
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

/// Checks a token that a surface received after the head of a request, and returns its principal. `head` is that of
/// the request. Failures are counted and not delayed.
pub(super) fn check_late(state: &ApiState, head: &Parts, token: &str) -> Result<Arc<Principal>, WrongToken> {
    let of = &head.extensions;
    let principal = Given::late(token).principal_of_known(state, &head.headers, of);
    principal.filter(|found| note(state, of, found)).ok_or_else(|| {
        state.service.metrics().auth_failed();
        state.service.audit().count_auth_failure(peer_of(of));
        WrongToken { retry_after: state.throttle.failed(peer_of(of)).err() }
    })
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

/// Returns the token of a request that passed the check. If it has two, they are the same.
pub(super) fn token_of(headers: &HeaderMap) -> Option<String> {
    Given::of(headers, false).first().map(|token| String::from_utf8_lossy(token).into_owned())
}
