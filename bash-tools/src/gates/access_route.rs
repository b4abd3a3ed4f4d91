//! `GET /api/admin/access`: whether the client has admin access, for the dialog that asks for the token.

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::StatusCode;
use http::header::{CACHE_CONTROL, RETRY_AFTER};
use serde::Serialize;

use super::head::Head;
use super::token::{self, Verdict};
use super::{Gates, locality};
use crate::config::Access;

/// Response of the route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessReport {
    /// Whether the request is from this machine.
    pub is_localhost: bool,
    /// Whether the app has a token of at least 32 characters.
    pub required_configured: bool,
    /// Whether the request has a token.
    pub token_provided: bool,
    /// Whether access is granted.
    pub allowed: bool,
    /// Why access is granted or denied.
    pub reason: AccessReason,
}

/// Why access is granted or denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessReason {
    /// The request is from this machine. This is enough unless access is `lan`.
    Localhost,
    /// The request has the right token.
    Allowed,
    /// The app has no token of at least 32 characters.
    MissingServerToken,
    /// The request has no token.
    MissingClientToken,
    /// The request has a wrong token.
    TokenMismatch,
}

/// Creates a route that returns an [`AccessReport`], for the path `/api/admin/access`. Clients on this machine and
/// clients with the token have access. If access is `lan`, only clients with the token do, because the tools then
/// require it from everyone. An address may send ten wrong tokens at once and one more every six seconds. Beyond that
/// the response is 429 with `retry-after`.
pub fn access_route<S: Clone + Send + Sync + 'static>(gates: Gates) -> MethodRouter<S> {
    get(move |request: Request| async move { answer(&gates, Head::of(&request)) })
}

fn answer(gates: &Gates, head: Head<'_>) -> Response {
    let report = report(gates, head);
    let counted = match report.reason {
        AccessReason::TokenMismatch => gates.0.failures.failed(head.peer_or_unknown()),
        _ => Ok(()),
    };
    let no_store = [(CACHE_CONTROL, "no-store")];
    match counted {
        Ok(()) => (no_store, Json(report)).into_response(),
        Err(wait) => {
            let after = [(RETRY_AFTER, (wait.as_secs() + 1).to_string())];
            let body = serde_json::json!({ "error": "too many wrong tokens; try again later", "code": "rate_limited" });
            (StatusCode::TOO_MANY_REQUESTS, no_store, after, Json(body)).into_response()
        }
    }
}

fn report(gates: &Gates, head: Head<'_>) -> AccessReport {
    let state = &gates.0;
    let is_localhost = locality::check(head, &state.trusted_proxies).is_ok();
    let reason = match token::check(head.headers, state.token.as_ref()) {
        _ if is_localhost && state.access == Access::Localhost => AccessReason::Localhost,
        Verdict::Right => AccessReason::Allowed,
        Verdict::NoneHere => AccessReason::MissingServerToken,
        Verdict::NoneGiven => AccessReason::MissingClientToken,
        Verdict::Wrong => AccessReason::TokenMismatch,
    };
    AccessReport {
        is_localhost,
        required_configured: state.token.is_some(),
        token_provided: token::is_given(head.headers),
        allowed: matches!(reason, AccessReason::Localhost | AccessReason::Allowed),
        reason,
    }
}
