//! Raw file content: `GET` and `PUT …/files?path=`.
//!
//! Conditions and ranges follow HTTP (RFC 9110 sections 13 and 14). The content comes from a sandbox, so the headers
//! make a browser download it instead of rendering it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, LAST_MODIFIED, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use sandbox_api::SandboxId;
use sandbox_api::files::FileWritten;

use super::precondition::{self, is_not_modified, is_range_of, quoted};
use super::{MAX_MODE, MODE_PROBLEM, body, named, wire};
use crate::api::ApiState;
use crate::api::body::{Json, Upload};
use crate::api::error::Result;
use crate::api::openapi::InSandbox;
use crate::api::openapi::answers::*;
use crate::api::params::{self, Params, Path, PathParam};
use crate::model::files::{FileHeader, FilePath, FileTarget};
use crate::model::{FieldError, Refusal};
use crate::service::{self, FileStream, Service};

/// Read a file's content.
///
/// Returns the whole file or a range, of any size. Supports `if-match`, `if-none-match` and `if-range`.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files", operation_id = "getFile", tag = "files",
    params(InSandbox, ("path" = String, Query, description = "Path in the workspace, absolute or relative to the workspace. May contain percent-encoded bytes."),
        ("range" = Option<String>, Header, description = "One range of bytes."),
        ("if-match" = Option<String>, Header, description = "Etags, one of which the file must have, or `*`."),
        ("if-range" = Option<String>, Header, description = "Etag of the version that the range belongs to."),
        ("if-none-match" = Option<String>, Header, description = "Etags of the client's copies. A matching file is not sent again.")),
    responses((status = 200, description = "Content of the file.", content_type = "application/octet-stream", headers(("etag" = String), ("last-modified" = String))),
        (status = 206, description = "Content of the range.", content_type = "application/octet-stream", headers(("etag" = String), ("content-range" = String))),
        (status = 304, description = "The file has one of the etags in `if-none-match`."), ByName, ByQuery, ByRange, ByCondition, BySandbox))]
pub(in crate::api) async fn get(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    headers: HeaderMap,
) -> Result<Response> {
    let id = params::sandbox(&id)?;
    let path = named("path", path)?;
    let Opened { header, bytes, is_part } = open(&state.service, &id, path.clone(), &headers).await?;
    if !precondition::is_match(&headers, header.info.etag.as_deref()) {
        return Err(Refusal::ConditionFailed { path: wire::shown(&path) }.into());
    }
    if is_not_modified(&headers, header.info.etag.as_deref()) {
        return Ok((StatusCode::NOT_MODIFIED, headers_of(&header, false)).into_response());
    }
    let status = if is_part { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    Ok((status, headers_of(&header, is_part), body(bytes)).into_response())
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
    State(state): State<ApiState>,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
    headers: HeaderMap,
    content: Upload,
) -> Result<Response> {
    let id = params::sandbox(&id)?;
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
    let written = state.service.files().write(&id, target, content.into_stream()).await?;
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

/// An open file and the bytes to send.
struct Opened {
    header: FileHeader,
    bytes: FileStream<Bytes>,
    /// Whether the bytes are the requested range instead of the whole file.
    is_part: bool,
}

/// Opens the file, at the range if that applies. Conditions are checked against the open file, in the order of RFC 9110
/// section 13.2.2. They are whether the client's copy is current, whether the range is of this file, and whether the
/// range contains a byte.
async fn open(service: &Arc<Service>, id: &SandboxId, path: FilePath, headers: &HeaderMap) -> Result<Opened> {
    if let Some(range) = precondition::range(headers) {
        match service.files().read(id, path.clone(), Some(range)).await {
            Ok((header, bytes)) if is_range_of(headers, header.info.etag.as_deref()) => {
                return Ok(Opened { header, bytes, is_part: true });
            }
            // The range belongs to another version of the file, so the whole file is sent.
            Ok(_) | Err(service::Error::Refused(Refusal::RangeEmpty { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (header, bytes) = service.files().read(id, path, None).await?;
    let etag = header.info.etag.as_deref();
    let size_bytes = header.info.size_bytes;
    let range = precondition::range(headers).filter(|range| range.is_empty_in(size_bytes));
    let is_wanted = precondition::is_match(headers, etag) && !is_not_modified(headers, etag);
    if range.is_some() && is_wanted && is_range_of(headers, etag) {
        return Err(Refusal::RangeEmpty { size_bytes }.into());
    }
    Ok(Opened { header, bytes, is_part: false })
}

fn headers_of(header: &FileHeader, is_part: bool) -> HeaderMap {
    let info = &header.info;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_LENGTH, header.length.into());
    if let Ok(modified) = HeaderValue::try_from(wire::http_date(info.modified_at_ns)) {
        headers.insert(LAST_MODIFIED, modified);
    }
    if let Some(etag) = info.etag.as_deref().and_then(quoted) {
        headers.insert(ETAG, etag);
    }
    if is_part && header.length > 0 {
        let last = (header.offset + header.length).saturating_sub(1);
        let range = format!("bytes {}-{last}/{}", header.offset, info.size_bytes);
        headers.extend(HeaderValue::try_from(range).ok().map(|range| (CONTENT_RANGE, range)));
    }
    headers
}
