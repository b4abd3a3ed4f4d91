//! Files as they are: `GET` and `PUT …/files?path=`.
//!
//! Conditions and ranges are those of HTTP (RFC 9110 sections 13 and 14). What is served comes from a sandbox, so a
//! browser must take it for nothing but bytes to keep.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    IF_RANGE, LAST_MODIFIED, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sandbox_api::files::FileWritten;

use super::precondition::{self, is_not_modified, quoted};
use super::{MAX_MODE, MODE_PROBLEM, named, wire};
use crate::api::ApiState;
use crate::api::body::{Json, Upload};
use crate::api::error::Result;
use crate::api::params::{self, Params, Path, PathParam};
use crate::model::FieldError;
use crate::model::files::{ByteRange, FileHeader, FilePath, FileTarget};
use crate::service::Service;

/// `GET …/files`
pub(in crate::api) async fn get(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    headers: HeaderMap,
) -> Result<Response> {
    let id = params::sandbox(&id)?;
    let path = named("path", path)?;
    let range = wanted_range(&state.service, &id, &path, &headers).await?;
    let (header, bytes) = state.service.read_file(&id, path, range).await?;
    if is_not_modified(&headers, header.info.etag.as_deref()) {
        return Ok((StatusCode::NOT_MODIFIED, headers_of(&header)).into_response());
    }
    let status = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    Ok((status, headers_of(&header), Body::from_stream(bytes)).into_response())
}

/// `PUT …/files`
pub(in crate::api) async fn put(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
    headers: HeaderMap,
    content: Upload,
) -> Result<Response> {
    let id = params::sandbox(&id)?;
    let (if_match, if_absent) = precondition::of_write(&headers)?;
    let target = FileTarget { path: named("path", path)?, mode: mode(&query)?, if_match, if_absent };
    let written = state.service.write_file(&id, target, content.into_stream()).await?;
    let etag = quoted(&written.etag);
    let written = FileWritten { ok: true, created: written.created, size: written.bytes, etag: written.etag };
    Ok((etag.map(|etag| [(ETAG, etag)]), Json(written)).into_response())
}

/// A mode in a query is what people write: octal, with or without `0o`.
fn mode(query: &Params) -> Result<Option<u32>> {
    let Some(text) = query.get("mode") else {
        return Ok(None);
    };
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= MAX_MODE);
    let mode = mode.ok_or_else(|| FieldError::new("mode", format!("{MODE_PROBLEM}, in octal: `644`")))?;
    Ok(Some(mode))
}

/// The part of a file that is asked for; all of it where the file is not the one that the caller has a part of.
async fn wanted_range(
    service: &std::sync::Arc<Service>,
    id: &sandbox_api::SandboxId,
    path: &FilePath,
    headers: &HeaderMap,
) -> Result<Option<ByteRange>> {
    let range = precondition::range(headers);
    let (Some(range), Some(condition)) = (range, headers.get(IF_RANGE)) else {
        return Ok(range);
    };
    let etag = service.stat_file(id, path.clone()).await?.etag;
    let is_same = etag.and_then(|etag| quoted(&etag)).is_some_and(|etag| etag == *condition);
    Ok(is_same.then_some(range))
}

fn headers_of(header: &FileHeader) -> HeaderMap {
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
    if header.length < info.size_bytes {
        let last = (header.offset + header.length).saturating_sub(1);
        let range = format!("bytes {}-{last}/{}", header.offset, info.size_bytes);
        headers.extend(HeaderValue::try_from(range).ok().map(|range| (CONTENT_RANGE, range)));
    }
    headers
}
