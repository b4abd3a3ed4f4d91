//! Handler for child tokens.

use std::time::Duration;

use sandbox_api::project::{ChildToken, CreateChildToken};

use super::body::Json;
use super::caller::Reader;
use super::denial::time;
use super::error::Result;
use super::openapi::answers::*;
use super::project::names;
use crate::model::field::checked;
use crate::model::{Scopes, Subject, limits};
use crate::service::NewChild;

/// Make a child token.
///
/// Returns a token that expires soon, for a program that must not have the token of this request: a browser, or a chat
/// app's code for one user. It permits no more than the token of this request, does not outlive it, and ends when that is
/// revoked. It can be limited to one sandbox. It is stored nowhere, so it is in no list and cannot be revoked alone.
#[utoipa::path(post, path = "/v1/child-tokens", operation_id = "createChildToken", tag = "projects",
    request_body = CreateChildToken, responses((status = 200, body = ChildToken), ByName, ByBody))]
pub(super) async fn create(
    Reader(access): Reader,
    Json(request): Json<CreateChildToken>,
) -> Result<Json<ChildToken>> {
    let subject = request.subject.map(|subject| subject.parse::<Subject>()).transpose()?;
    let scopes = request.scopes.as_ref().map(|names| Scopes::parse(names.iter().map(String::as_str)));
    let ttl = |ms: u64| checked("ttlMs", ms, limits::CHILD_TOKEN_TTL_MS).map(Duration::from_millis);
    let new = NewChild {
        subject,
        scopes: scopes.transpose()?,
        ttl: request.ttl_ms.map(ttl).transpose()?,
        sandbox: request.sandbox_id.map(|id| access.sandbox(id)).transpose()?,
    };
    let (token, grant) = access.projects().make_child(access.principal(), new)?;
    access.found("subject", grant.owner.subject.as_ref().map(Subject::as_str));
    access.found("scopes", names(grant.scopes));
    access.found("sandboxId", &grant.sandbox);
    access.found("expiresAt", time(grant.expires_at_ms));
    Ok(Json(ChildToken {
        token,
        project: grant.owner.project.to_string(),
        subject: grant.owner.subject.map(|subject| subject.to_string()),
        scopes: names(grant.scopes),
        sandbox_id: grant.sandbox,
        expires_at: time(grant.expires_at_ms),
    }))
}
