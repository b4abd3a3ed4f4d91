//! Handlers for the values that are kept with a sandbox: `/v1/sandboxes/{id}/kv…`.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use sandbox_api::value::{ValueInfo, ValueList};
use sandbox_api::{Done, SandboxId};

use super::body::{Json, KeptBytes};
use super::caller::{Reader, User};
use super::error::Result;
use super::openapi::answers::*;
use super::openapi::{InSandbox, InValue};
use super::params::{self, Params, Path};
use super::sandbox::time;
use crate::model::field::checked;
use crate::model::value::ValueKey;
use crate::model::{FieldError, limits};
use crate::service::{Access, Authorized};

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// List values.
///
/// Returns the keys, in the order of their bytes, with the size of each value. Does not wake the sandbox.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/kv", operation_id = "listValues", tag = "values",
    params(InSandbox,
        ("prefix" = Option<String>, Query, description = "Text with which the keys begin."),
        ("limit" = Option<u32>, Query, description = "Maximum number, default 100."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page.")),
    responses((status = 200, body = ValueList), ByName, ByQuery))]
pub(super) async fn list(
    Reader(access): Reader,
    Path(id): Path<String>,
    query: Params,
) -> Result<Json<ValueList>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let limit = params::optional(&query, "limit", "a number")?.unwrap_or(limits::DEFAULT_KEY_PAGE);
    let limit = checked("limit", u64::from(limit), 1..=u64::from(limits::MAX_KEY_PAGE))? as u32;
    let prefix = query.get("prefix").map(|prefix| prefix_of(prefix)).transpose()?.unwrap_or_default();
    let after = query.get("cursor").map(|cursor| cursor.parse::<ValueKey>());
    let after = after.transpose().map_err(|_| super::snapshot::bad_cursor())?;
    // One more, to know whether there is a next page.
    let mut found = access.values().list(&id, prefix, after.as_ref(), limit + 1).await?;
    let has_more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.last().filter(|_| has_more).map(|value| value.key.to_string());
    let info = |value: crate::model::value::ValueInfo| ValueInfo {
        key: value.key.to_string(),
        bytes: value.bytes,
        updated_at: time(value.updated_at_ms),
    };
    Ok(Json(ValueList { values: found.into_iter().map(info).collect(), next_cursor }))
}

/// Read a value.
///
/// Returns the bytes as they were written. Does not wake the sandbox.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/kv/{key}", operation_id = "getValue", tag = "values", params(InValue),
    responses((status = 200, description = "The value.", content_type = "application/octet-stream"), ByName, ByQuery))]
pub(super) async fn get(Reader(access): Reader, Path((id, key)): Path<(String, String)>) -> Result<Response> {
    let (id, key) = named(&access, &id, &key)?;
    let found = access.values().get(&id, &key).await?;
    Ok(([(CONTENT_TYPE, OCTETS)], found.value).into_response())
}

/// Keep a value.
///
/// Replaces the value with the same key. It is kept until it or the sandbox is deleted, also while the sandbox is parked.
/// Does not wake the sandbox.
#[utoipa::path(put, path = "/v1/sandboxes/{id}/kv/{key}", operation_id = "putValue", tag = "values", params(InValue),
    request_body(content_type = "application/octet-stream", description = "The value: up to 1 MiB of any bytes."),
    responses((status = 200, body = Done), ByName, ByQuery, ByState, ByUpload, ByRoom))]
pub(super) async fn put(
    User(access): User,
    Path((id, key)): Path<(String, String)>,
    KeptBytes(value): KeptBytes,
) -> Result<Json<Done>> {
    let (id, key) = named(&access, &id, &key)?;
    access.values().put(&id, key, value).await?;
    Ok(Json(Done::OK))
}

/// Delete a value.
///
/// Succeeds if there is none.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/kv/{key}", operation_id = "deleteValue", tag = "values",
    params(InValue), responses((status = 200, body = Done), ByName, ByQuery, ByState))]
pub(super) async fn delete(
    User(access): User,
    Path((id, key)): Path<(String, String)>,
) -> Result<Json<Done>> {
    let (id, key) = named(&access, &id, &key)?;
    access.values().delete(&id, key).await?;
    Ok(Json(Done::OK))
}

fn named(access: &Access, id: &str, key: &str) -> Result<(Authorized<SandboxId>, ValueKey)> {
    Ok((access.sandbox(params::sandbox(id)?)?, key.parse()?))
}

fn prefix_of(text: &str) -> std::result::Result<&str, FieldError> {
    if text.len() > limits::MAX_VALUE_KEY_BYTES || text.chars().any(char::is_control) {
        let problem =
            format!("must be at most {} bytes without control characters", limits::MAX_VALUE_KEY_BYTES);
        return Err(FieldError::new("prefix", problem));
    }
    Ok(text)
}
