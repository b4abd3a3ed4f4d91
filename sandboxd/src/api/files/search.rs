//! Searches in file contents and names.

use sandbox_api::files::{GlobFiles, GlobFound, GrepFiles, GrepFound};

use super::super::caller::Reader;
use super::{path_of, secret_values, wire};
use crate::api::body::Json;
use crate::api::error::Result;
use crate::api::openapi::InSandbox;
use crate::api::openapi::answers::*;
use crate::api::params::{self, Path};
use crate::model::field::checked;
use crate::model::files::{GlobOptions, GrepOptions};
use crate::model::limits;

/// Search in file contents.
///
/// Skips `.git` and files that `.gitignore` excludes, unless `includeIgnored` is set. The search of a file stops at
/// its first NUL byte.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files:grep", operation_id = "grepFiles", tag = "files",
    params(InSandbox), request_body = GrepFiles,
    responses((status = 200, body = GrepFound), ByName, ByBody, BySandbox))]
pub(in crate::api) async fn grep(
    Reader(access): Reader,
    Path(id): Path<String>,
    Json(request): Json<GrepFiles>,
) -> Result<Json<GrepFound>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let secrets = secret_values(request.hide_secrets);
    let request = GrepOptions {
        path: path_of("path", request.path.unwrap_or_default().into())?,
        query: request.query,
        regex: request.regex.unwrap_or(false),
        case_insensitive: request.case_insensitive.unwrap_or(false),
        include: request.include.map(Into::into).unwrap_or_default(),
        max_results: max_results(request.max_results)?,
        include_ignored: request.include_ignored.unwrap_or(false),
    };
    Ok(Json(wire::grep_found(access.files().grep(&id, request, secrets).await?)))
}

/// Search for file names.
///
/// Returns files and directories whose path matches a glob.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files:glob", operation_id = "globFiles", tag = "files",
    params(InSandbox), request_body = GlobFiles,
    responses((status = 200, body = GlobFound), ByName, ByBody, BySandbox))]
pub(in crate::api) async fn glob(
    Reader(access): Reader,
    Path(id): Path<String>,
    Json(request): Json<GlobFiles>,
) -> Result<Json<GlobFound>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let secrets = secret_values(request.hide_secrets);
    let request = GlobOptions {
        path: path_of("path", request.path.unwrap_or_default().into())?,
        pattern: request.pattern,
        exclude: request.exclude.map(Into::into).unwrap_or_default(),
        max_results: max_results(request.max_results)?,
        include_ignored: request.include_ignored.unwrap_or(false),
    };
    Ok(Json(wire::glob_found(access.files().glob(&id, request, secrets).await?)))
}

fn max_results(requested: Option<u32>) -> Result<u32> {
    let requested = requested.unwrap_or(limits::DEFAULT_SEARCH_RESULTS);
    Ok(checked("maxResults", u64::from(requested), 1..=u64::from(limits::MAX_SEARCH_RESULTS))? as u32)
}
