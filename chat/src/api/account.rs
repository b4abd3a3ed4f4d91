//! The caller's own account.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use http::HeaderMap;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Api;
use super::caller::Member;
use super::error::Result;
use super::session::Peer;

/// Body of `PUT /api/account/password`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangePassword {
    /// Empty if the account has no password yet.
    #[serde(default)]
    current: SecretString,
    new: SecretString,
}

/// `PUT /api/account/password`: also ends the other sessions of the user.
pub(super) async fn change_password(
    State(api): State<Api>,
    Member(who): Member,
    Peer(peer): Peer,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode> {
    let (ChangePassword { current, new }, _) = api.bodies.read(&headers, body).await?;
    api.people.change_password(&who, current, new, peer).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/account/sessions`
pub(super) async fn sessions(State(api): State<Api>, Member(who): Member) -> Result<Json<Value>> {
    let sessions = api.people.sessions(&who.user.id).await?;
    Ok(Json(json!({ "sessions": sessions, "current": who.session })))
}

/// `DELETE /api/account/sessions/{session}`
pub(super) async fn end_session(
    State(api): State<Api>,
    Member(who): Member,
    Path(session): Path<String>,
) -> Result<StatusCode> {
    api.people.end_session(&who.user.id, &session).await?;
    Ok(StatusCode::NO_CONTENT)
}
