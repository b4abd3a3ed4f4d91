//! Accounts and invitations, for admins.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Api;
use super::caller::Admin;
use super::error::{Error, Result};
use crate::account::{Role, User, UserId};
use crate::store::UserChange;

/// Body of `PATCH /api/users/{user}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeUser {
    role: Option<Role>,
    disabled: Option<bool>,
}

/// Body of `POST /api/invitations`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Invite {
    role: Role,
}

/// `GET /api/users`
pub(super) async fn list(State(api): State<Api>, _: Admin) -> Result<Json<Value>> {
    Ok(Json(json!({ "users": api.people.users().await? })))
}

/// `PATCH /api/users/{user}`
pub(super) async fn change(
    State(api): State<Api>,
    _: Admin,
    Path(user): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<User>> {
    let (ChangeUser { role, disabled }, _) = api.bodies.read(&headers, body).await?;
    let what = UserChange { role, is_disabled: disabled };
    Ok(Json(api.people.change(&id(&user)?, what).await?))
}

/// `DELETE /api/users/{user}/sessions`
pub(super) async fn end_sessions(
    State(api): State<Api>,
    _: Admin,
    Path(user): Path<String>,
) -> Result<StatusCode> {
    api.people.end_sessions(&id(&user)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/invitations`
pub(super) async fn invitations(State(api): State<Api>, _: Admin) -> Result<Json<Value>> {
    Ok(Json(json!({ "invitations": api.people.invitations().await? })))
}

/// `POST /api/invitations`: the response has the secret of the link, which is not stored.
pub(super) async fn invite(
    State(api): State<Api>,
    Admin(who): Admin,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>> {
    let (Invite { role }, _) = api.bodies.read(&headers, body).await?;
    let (invitation, secret) = api.people.invite(role, &who.user.id).await?;
    let mut answer = json!(invitation);
    answer["secret"] = json!(secret.expose());
    Ok(Json(answer))
}

/// `DELETE /api/invitations/{invitation}`
pub(super) async fn withdraw(
    State(api): State<Api>,
    _: Admin,
    Path(invitation): Path<String>,
) -> Result<StatusCode> {
    api.people.withdraw(&invitation).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn id(user: &str) -> Result<UserId> {
    user.parse().map_err(|_| Error::NotFound { what: "user" })
}
