//! Raw file content: `GET` and `PUT …/files?path=`.

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG};
use axum::response::{IntoResponse, Response};
use sandbox_api::files::FileWritten;

use super::super::caller::{Reader, User};
use super::{MAX_MODE, MODE_PROBLEM, body, named};
use crate::api::body::{Json, Upload};
use crate::api::error::Result;
use crate::api::openapi::InSandbox;
use crate::api::openapi::answers::*;
use crate::api::params::{self, Params, Path, PathParam};
use crate::content::precondition::{self, quoted};
use crate::content::{self, Content};
use crate::model::FieldError;
use crate::model::files::FileTarget;

/// Read a file's content.
///
/// Returns the whole file or a range, of any size. Supports `if-match`, `if-none-match` and `if-range`.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files", operation_id = "getFile", tag = "files",
    params(InSandbox, ("path" = String, Query, description = "Path in the workspace, absolute or relative to the workspace. May contain percent-encoded bytes."),
        ("hideSecrets" = Option<bool>, Query, description = "Replaces the values of secret variables. The whole file is then sent, without an etag, and `if-match` is rejected. Default false."),
        ("range" = Option<String>, Header, description = "One range of bytes."),
        ("if-match" = Option<String>, Header, description = "Etags, one of which the file must have, or `*`."),
        ("if-range" = Option<String>, Header, description = "Etag of the version that the range belongs to."),
        ("if-none-match" = Option<String>, Header, description = "Etags of the client's copies. A matching file is not sent again.")),
    responses((status = 200, description = "Content of the file.", content_type = "application/octet-stream", headers(("etag" = String), ("last-modified" = String), ("x-file-size" = u64, description = "Size of the file, if its length is not known because values were replaced."))),
        (status = 206, description = "Content of the range.", content_type = "application/octet-stream", headers(("etag" = String), ("content-range" = String))),
        (status = 304, description = "The file has one of the etags in `if-none-match`."), ByName, ByQuery, ByRange, ByCondition, BySandbox))]
pub(in crate::api) async fn get(
    Reader(access): Reader,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
    headers: HeaderMap,
) -> Result<Response> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let path = named("path", path)?;
    let files = access.files();
    let is_hidden = params::optional(&query, "hideSecrets", "`true` or `false`")?.unwrap_or(false);
    let Content { status, headers, bytes } = match is_hidden {
        true => content::respond_hidden(files, &id, path, &headers).await?,
        false => content::respond(files, &id, path, &headers).await?,
    };
    Ok((status, headers, bytes.map_or_else(Body::empty, body)).into_response())
}

/// Write a file's content.
///
/// Accepts any size. The write is atomic: the whole file appears at once, or nothing changes. Missing parent
/// directories are created. Supports `if-match` and `if-none-match: *`.
#[utoipa::path(put, path = "/v1/sandboxes/{id}/files", operation_id = "putFile", tag = "files",
    params(InSandbox, ("path" = String, Query, description = "Path in the workspace, absolute or relative to the workspace. May contain percent-encoded bytes."),
        ("if-match" = Option<String>, Header, description = "Etag that the file must have, or `*`."),
        ("if-none-match" = Option<String>, Header, description = "`*`: the file must not exist."),
        ("mode" = Option<String>, Query, description = "Permission bits in octal. Default: those of the replaced file, or 644."),
        ("durable" = Option<bool>, Query, description = "Responds only when the file would survive a crash of the machine.")),
    request_body(content_type = "application/octet-stream", description = "Content of the file."),
    responses((status = 200, body = FileWritten, headers(("etag" = String))), ByName, ByQuery, ByUpload, ByCondition, BySandbox))]
pub(in crate::api) async fn put(
    User(access): User,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
    headers: HeaderMap,
    content: Upload,
) -> Result<Response> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    // A partial body would replace the whole file (RFC 9110 section 14.5).
    for part in [CONTENT_RANGE, CONTENT_ENCODING] {
        if headers.contains_key(&part) {
            let problem = "is not supported: the body must be the whole file, unencoded";
            return Err(FieldError::new(part.as_str(), problem).into());
        }
    }
    let (if_match, if_absent) = precondition::of_write(&headers)?;
    let durable = params::optional(&query, "durable", "`true` or `false`")?.unwrap_or(false);
    let target = FileTarget { path: named("path", path)?, mode: mode(&query)?, if_match, if_absent, durable };
    let written = access.files().write(&id, target, content.into_stream()).await?;
    let etag = quoted(&written.etag);
    let written = FileWritten { ok: true, created: written.created, size: written.bytes, etag: written.etag };
    Ok((etag.map(|etag| [(ETAG, etag)]), Json(written)).into_response())
}

/// Parses the mode in a query: octal, with or without `0o`.
fn mode(query: &Params) -> Result<Option<u32>> {
    let Some(text) = query.get("mode") else {
        return Ok(None);
    };
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= MAX_MODE);
    let mode = mode.ok_or_else(|| FieldError::new("mode", format!("{MODE_PROBLEM}, in octal: `644`")))?;
    Ok(Some(mode))
}
