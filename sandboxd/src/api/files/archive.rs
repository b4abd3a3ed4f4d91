//! Many files at once: `GET` and `PUT …/files:archive?path=`.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use sandbox_api::files::ArchiveUnpacked;

use super::path_of;
use crate::api::ApiState;
use crate::api::body::{Json, Upload};
use crate::api::error::Result;
use crate::api::params::{self, Params, Path, PathParam};
use crate::model::FieldError;
use crate::model::files::Compression;

/// `GET …/files:archive`
pub(in crate::api) async fn pack(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
) -> Result<Response> {
    let id = params::sandbox(&id)?;
    let (compression, kind) = format(query.get("format").map(String::as_str))?;
    let bytes = state.service.pack(&id, path_of("path", path)?, compression).await?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, Body::from_stream(bytes)).into_response())
}

/// `PUT …/files:archive`
pub(in crate::api) async fn unpack(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    archive: Upload,
) -> Result<Json<ArchiveUnpacked>> {
    let id = params::sandbox(&id)?;
    let unpacked = state.service.unpack(&id, path_of("path", path)?, archive.into_stream()).await?;
    Ok(Json(ArchiveUnpacked { ok: true, files: unpacked.files, bytes: unpacked.bytes }))
}

fn format(named: Option<&str>) -> Result<(Compression, &'static str)> {
    match named.unwrap_or("tar") {
        "tar" => Ok((Compression::None, "application/x-tar")),
        "tar.gz" => Ok((Compression::Gzip, "application/gzip")),
        "tar.zst" => Ok((Compression::Zstd, "application/zstd")),
        _ => Err(FieldError::new("format", "must be `tar`, `tar.gz` or `tar.zst`").into()),
    }
}
