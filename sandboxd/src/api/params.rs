//! Path ids and query parameters.

use std::collections::HashMap;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use bytes::Bytes;
use sandbox_api::{CommandId, ContextId, DenialId, LinkId, SandboxId, SnapshotId, TerminalId};
use serde::de::DeserializeOwned;

use super::ApiState;
use super::error::{ApiError, HttpError, Result};
use crate::model::{FieldError, Refusal, Resource};

/// A query with one value for each name.
pub(super) type Params = Query<HashMap<String, String>>;

/// Path parameters, as axum decodes them. A path that is not valid UTF-8 matches no route.
pub(super) struct Path<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<ApiState> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(named)) => Ok(Self(named)),
            Err(_) => Err(HttpError::NoRoute.into()),
        }
    }
}

/// The `path` parameter of a query, as bytes, because file names need not be valid UTF-8. Empty if absent.
pub(super) struct PathParam(pub(super) Bytes);

impl<S: Sync> FromRequestParts<S> for PathParam {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        Ok(Self(path_in(parts.uri.query().unwrap_or_default())))
    }
}

/// Decodes it as a form does: a plus is a space (URL Standard, application/x-www-form-urlencoded). The last value
/// wins, as for every other name.
fn path_in(query: &str) -> Bytes {
    let value = query.split('&').rev().find_map(|pair| pair.strip_prefix("path="));
    let spaced = value.unwrap_or_default().replace('+', " ");
    percent_encoding::percent_decode_str(&spaced).collect::<Vec<u8>>().into()
}

/// Parses a sandbox id. A malformed one is reported as not found.
pub(super) fn sandbox(text: &str) -> Result<SandboxId> {
    text.parse().map_err(|_| Refusal::NotFound(Resource::Sandbox).into())
}

/// Parses a command id.
pub(super) fn command(text: &str) -> Result<CommandId> {
    text.parse().map_err(|_| Refusal::NotFound(Resource::Command).into())
}

/// Parses a terminal id.
pub(super) fn terminal(text: &str) -> Result<TerminalId> {
    text.parse().map_err(|_| Refusal::NotFound(Resource::Terminal).into())
}

/// Parses a context id.
pub(super) fn context(text: &str) -> Result<ContextId> {
    text.parse().map_err(|_| Refusal::NotFound(Resource::Context).into())
}

/// Parses the number of a tool call: digits without leading zeros, so that each call has one path.
pub(super) fn tool_call(text: &str) -> Result<u64> {
    let call = text.parse::<u64>().ok().filter(|call| *call > 0 && call.to_string() == text);
    call.ok_or_else(|| Refusal::NotFound(Resource::ToolCall).into())
}

/// Parses a link id.
pub(super) fn link(text: &str) -> Result<LinkId> {
    text.parse().map_err(|_| Refusal::NotFound(Resource::Link).into())
}

/// Parses a snapshot id.
pub(super) fn snapshot(text: &str) -> Result<SnapshotId> {
    text.parse().map_err(|_| Refusal::NotFound(Resource::Snapshot).into())
}

/// Parses a denial id.
pub(super) fn denial(text: &str) -> Result<DenialId> {
    text.parse().map_err(|_| Refusal::NotFound(Resource::Denial).into())
}

/// Parses a port: digits without leading zeros, so that each port has one path.
pub(super) fn port(text: &str) -> Result<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let port = text.parse().ok().filter(|_| is_plain);
    port.ok_or_else(|| FieldError::new("port", "must be 1 to 65535 without leading zeros").into())
}

/// Parses an optional query value.
pub(super) fn optional<T: FromStr>(params: &Params, name: &str, kind: &str) -> Result<Option<T>> {
    let Some(text) = params.get(name) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(FieldError::new(name, format!("must be {kind}")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_query_is_bytes() {
        assert_eq!(path_in("path=a%2Fb+c%ff&x=1"), &b"a/b c\xff"[..]);
        assert_eq!(path_in("x=1&path=%2B"), "+");
        assert_eq!(path_in("paths=1"), "");
    }
}
