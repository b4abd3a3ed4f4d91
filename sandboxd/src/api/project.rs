//! Handlers for projects and their tokens.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::Extensions;
use jiff::ToSpan;
use jiff::civil::Date;
use listen::slot::ConnectionSlot;
use sandbox_api::project::{
    CreateProject, CreateToken, Project, ProjectList, RevokeSubject, Token, TokenCreated, TokenList, WhoAmI,
};
use sandbox_api::quota::{ChangeProject, DayUsage, ProjectUsage, QuotaUsage};
use sandbox_api::{Done, TokenId};

use super::ApiState;
use super::body::Json;
use super::caller::{Anyone, Manager, Operator};
use super::denial::time;
use super::error::Result;
use super::openapi::InProject;
use super::openapi::answers::*;
use super::params::{self, Params, Path};
use crate::model::field::checked;
use crate::model::token::is_name;
use crate::model::{
    self, FieldError, Principal, ProjectName, ProjectQuotas, ProjectRecord, Refusal, Resource, Scopes,
    TokenRecord, limits,
};
use crate::service::{Access, Authorized, NewToken, QuotaUse, UsageReport};

/// Show whom the token belongs to.
///
/// Returns the project, the subject and the scopes of the token of this request.
#[utoipa::path(get, path = "/v1/whoami", operation_id = "whoAmI", tag = "projects",
    responses((status = 200, body = WhoAmI)))]
pub(super) async fn whoami(Anyone(access): Anyone) -> Json<WhoAmI> {
    let Principal { owner, scopes, token, is_operator, sandbox, expires_at_ms, .. } = access.principal();
    Json(WhoAmI {
        project: owner.project.to_string(),
        subject: owner.subject.as_ref().map(ToString::to_string),
        scopes: names(*scopes),
        token: token.to_string(),
        operator: *is_operator,
        sandbox_id: sandbox.clone(),
        expires_at: expires_at_ms.map(time),
    })
}

/// List projects.
///
/// Returns the projects sorted by name. Only the operator sees others than its own.
#[utoipa::path(get, path = "/v1/projects", operation_id = "listProjects", tag = "projects",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number, default 100."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page.")),
    responses((status = 200, body = ProjectList), ByQuery))]
pub(super) async fn list(Manager(access): Manager, query: Params) -> Result<Json<ProjectList>> {
    let limit = limit_of(&query)?;
    let after = query.get("cursor").map(|cursor| cursor.parse::<ProjectName>()).transpose();
    let after = after.map_err(|_| super::snapshot::bad_cursor())?;
    let (found, more) = access.projects().list(access.principal(), after.as_ref(), limit);
    let projects: Vec<Project> = found.into_iter().map(|found| project_to_wire(&access, found)).collect();
    let last = projects.last().map(|project| project.name.clone());
    Ok(Json(ProjectList { next_cursor: last.filter(|_| more), projects }))
}

/// Create a project.
///
/// Only the operator can create projects. Idempotent: returns the project if it exists.
#[utoipa::path(post, path = "/v1/projects", operation_id = "createProject", tag = "projects",
    request_body = CreateProject, responses((status = 200, body = Project), ByBody))]
pub(super) async fn create(
    Operator(access, proof): Operator,
    Json(request): Json<CreateProject>,
) -> Result<Json<Project>> {
    let name = request.name.parse::<ProjectName>();
    let name = name.map_err(|error| FieldError::new("name", error.problem))?;
    access.found("project", name.as_str());
    Ok(Json(project_to_wire(&access, access.projects().create(name, &proof).await?)))
}

/// Inspect a project.
///
/// Returns the project with its quotas.
#[utoipa::path(get, path = "/v1/projects/{project}", operation_id = "getProject", tag = "projects",
    params(InProject), responses((status = 200, body = Project), ByName))]
pub(super) async fn get(Manager(access): Manager, Path(project): Path<String>) -> Result<Json<Project>> {
    let project = project_of(&access, &project)?;
    Ok(Json(project_to_wire(&access, access.projects().get(&project)?)))
}

/// Change the quotas of a project.
///
/// The quotas of the request replace all of the project. What it uses stays, also if it is more than a quota permits. A field
/// that is not known is an error. Only the operator can change quotas.
#[utoipa::path(put, path = "/v1/projects/{project}", operation_id = "changeProject", tag = "projects",
    params(InProject), request_body = ChangeProject, responses((status = 200, body = Project), ByName, ByBody))]
pub(super) async fn change(
    Operator(access, proof): Operator,
    Path(project): Path<String>,
    Json(request): Json<ChangeProject>,
) -> Result<Json<Project>> {
    let quotas = ProjectQuotas::from_wire(&request.quotas, "quotas.")?;
    let project = project_of(&access, &project)?;
    access.quotas().set(&project, quotas, &proof).await?;
    Ok(Json(project_to_wire(&access, access.projects().get(&project)?)))
}

/// Show what a project uses.
///
/// Returns what it uses now of each quota, and what it has used on each of the last 90 days (UTC), to about 10 seconds. A
/// token with a subject sees the numbers of its whole project, because the quotas are those of the project.
#[utoipa::path(get, path = "/v1/projects/{project}/usage", operation_id = "getProjectUsage", tag = "projects",
    params(InProject), responses((status = 200, body = ProjectUsage), ByName))]
pub(super) async fn usage(
    Manager(access): Manager,
    Path(project): Path<String>,
) -> Result<Json<ProjectUsage>> {
    let project = project_of(&access, &project)?;
    let UsageReport { now, days } = access.quotas().usage(&project).await?;
    let name = project.to_string();
    let days = days.into_iter().filter_map(|(day, usage)| Some(day_to_wire(date_of(day)?, usage)));
    Ok(Json(ProjectUsage {
        project: name,
        now: now.into_iter().map(use_to_wire).collect(),
        days: days.collect(),
    }))
}

/// List tokens of a project.
///
/// Returns the tokens sorted by id, without their secrets. Those that have expired are listed for a day at least. A token
/// with a subject sees only the tokens of this subject.
#[utoipa::path(get, path = "/v1/projects/{project}/tokens", operation_id = "listTokens", tag = "projects",
    params(InProject,
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number, default 100."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page.")),
    responses((status = 200, body = TokenList), ByName, ByQuery))]
pub(super) async fn list_tokens(
    Manager(access): Manager,
    Path(project): Path<String>,
    query: Params,
) -> Result<Json<TokenList>> {
    let limit = limit_of(&query)?;
    let after = query.get("cursor").map(|cursor| cursor.parse::<TokenId>()).transpose();
    let after = after.map_err(|_| super::snapshot::bad_cursor())?;
    let project = project_of(&access, &project)?;
    let (found, more) = access.projects().list_tokens(&project, access.principal(), after.as_ref(), limit);
    let tokens: Vec<Token> = found.into_iter().map(to_wire).collect();
    let last = tokens.last().map(|token| token.token_id.to_string());
    Ok(Json(TokenList { next_cursor: last.filter(|_| more), tokens }))
}

/// Create a token of a project.
///
/// Returns the token. Only a keyed hash of it is stored, so it is never returned again. It permits no more than the token
/// of this request, and does not outlive it.
#[utoipa::path(post, path = "/v1/projects/{project}/tokens", operation_id = "createToken", tag = "projects",
    params(InProject), request_body = CreateToken,
    responses((status = 200, body = TokenCreated), ByName, ByBody))]
pub(super) async fn create_token(
    Manager(access): Manager,
    Path(project): Path<String>,
    Json(request): Json<CreateToken>,
) -> Result<Json<TokenCreated>> {
    let new = new_token_of(request, access.principal())?;
    let project = project_of(&access, &project)?;
    let (token, record) = access.projects().create_token(&project, access.principal(), new).await?;
    let properties = to_wire(record);
    access.found("properties", &properties);
    Ok(Json(TokenCreated { token: token.expose(), properties }))
}

/// Revoke a token.
///
/// From here on, requests with it fail, and its open connections and preview links are closed. Idempotent: succeeds if the
/// token does not exist.
#[utoipa::path(delete, path = "/v1/projects/{project}/tokens/{tokenId}", operation_id = "revokeToken",
    tag = "projects", params(InProject, ("tokenId" = String, Path, description = "Id of the token: `tok_…`.")),
    responses((status = 200, body = Done), ByName))]
pub(super) async fn revoke_token(
    Manager(access): Manager,
    State(state): State<ApiState>,
    Path((project, token)): Path<(String, String)>,
    extensions: Extensions,
) -> Result<Json<Done>> {
    let project = project_of(&access, &project)?;
    // A malformed id names no token, so there is nothing to revoke.
    if let Ok(token) = token.parse() {
        if access.principal().token_id() == Some(&token)
            && let Some(slot) = extensions.get::<Arc<ConnectionSlot>>()
        {
            // This connection has to stay open for the response.
            state.connections.keep(slot);
        }
        access.revoke_token(project, token).await?;
    }
    Ok(Json(Done::OK))
}

/// Revoke the tokens of a subject.
///
/// JSON Web Tokens and child tokens of the subject that were issued until now are not valid any more, and their open
/// connections and preview links are closed. Tokens of the project are revoked one by one. Idempotent.
#[utoipa::path(post, path = "/v1/projects/{project}/subjects:revoke", operation_id = "revokeSubject",
    tag = "projects", params(InProject), request_body = RevokeSubject,
    responses((status = 200, body = Done), ByName, ByBody))]
pub(super) async fn revoke_subject(
    Manager(access): Manager,
    Path(project): Path<String>,
    State(state): State<ApiState>,
    extensions: Extensions,
    Json(request): Json<RevokeSubject>,
) -> Result<Json<Done>> {
    let subject = request.subject.parse()?;
    let project = project_of(&access, &project)?;
    if access.owner().subject.as_ref() == Some(&subject)
        && let Some(slot) = extensions.get::<Arc<ConnectionSlot>>()
    {
        // This connection has to stay open for the response.
        state.connections.keep(slot);
    }
    access.revoke_subject(project, subject).await?;
    Ok(Json(Done::OK))
}

fn project_of(access: &Access, name: &str) -> Result<Authorized<ProjectName>> {
    // No project has a malformed name.
    let name = name.parse().map_err(|_| Refusal::NotFound(Resource::Project))?;
    Ok(access.project(name)?)
}

/// The subject of a principal with one is the default, because it cannot create tokens of others.
fn new_token_of(request: CreateToken, by: &Principal) -> Result<NewToken> {
    if request.name.as_deref().is_some_and(|name| !is_name(name)) {
        let problem =
            format!("must have 1 to {} characters, none of them a control character", limits::MAX_TOKEN_NAME);
        return Err(FieldError::new("name", problem).into());
    }
    let ttl = |ms: u64| checked("ttlMs", ms, limits::TOKEN_TTL_MS).map(Duration::from_millis);
    let subject = request.subject.map(|subject| subject.parse()).transpose()?;
    let scopes = request.scopes.as_ref().map(|names| Scopes::parse(names.iter().map(String::as_str)));
    Ok(NewToken {
        name: request.name,
        subject: subject.or_else(|| by.owner.subject.clone()),
        scopes: scopes.transpose()?.unwrap_or(Scopes::USE),
        ttl: request.ttl_ms.map(ttl).transpose()?,
    })
}

fn limit_of(query: &Params) -> Result<usize> {
    let limit = params::optional(query, "limit", "a number")?.unwrap_or(limits::DEFAULT_PROJECT_PAGE);
    Ok(checked("limit", u64::from(limit), 1..=u64::from(limits::MAX_PROJECT_PAGE))? as usize)
}

pub(super) fn names(scopes: Scopes) -> Vec<String> {
    scopes.names().into_iter().map(str::to_owned).collect()
}

fn project_to_wire(access: &Access, record: ProjectRecord) -> Project {
    let quotas = access.quotas().of(&record.name).to_wire();
    Project { name: record.name.to_string(), created_at: time(record.created_at_ms), quotas }
}

fn use_to_wire(QuotaUse { quota, used, limit }: QuotaUse) -> QuotaUsage {
    QuotaUsage { quota: quota.as_str().to_owned(), used, limit }
}

fn day_to_wire(day: Date, usage: model::DayUsage) -> DayUsage {
    let model::DayUsage { running_ms, peak_running, commands, egress_bytes, snapshot_bytes } = usage;
    DayUsage { day, running_ms, peak_running, commands, egress_bytes, snapshot_bytes }
}

/// The date of a day since the Unix epoch. `None` beyond the calendar.
fn date_of(day: i32) -> Option<Date> {
    Date::constant(1970, 1, 1).checked_add(day.days()).ok()
}

fn to_wire(record: TokenRecord) -> Token {
    Token {
        token_id: record.id,
        project: record.owner.project.to_string(),
        name: record.name,
        subject: record.owner.subject.map(|subject| subject.to_string()),
        scopes: names(record.scopes),
        created_at: time(record.created_at_ms),
        expires_at: record.expires_at_ms.map(time),
        last_used_at: record.last_used_ms.map(time),
    }
}
