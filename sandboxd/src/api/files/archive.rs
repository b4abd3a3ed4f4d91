//! Archives: `GET` and `PUT …/files:archive?path=`.

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use sandbox_api::files::ArchiveUnpacked;

use super::super::caller::{Reader, User};
use super::{body, path_of};
use crate::api::body::{Json, Upload};
use crate::api::error::Result;
use crate::api::openapi::InSandbox;
use crate::api::openapi::answers::*;
use crate::api::params::{self, Params, Path, PathParam};
use crate::model::FieldError;
use crate::model::files::Compression;

/// Download an archive.
///
/// Names in the archive are relative to the directory. A file is packed alone. FIFOs, sockets and devices are
/// skipped. If an entry cannot be read, the request fails, or the connection breaks off if data was already sent.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files:archive", operation_id = "packFiles", tag = "files",
    params(InSandbox, ("path" = Option<String>, Query, description = "Directory or file to pack. Default: the workspace."),
        ("format" = Option<String>, Query, description = "Format of the archive.")),
    responses((status = 200, description = "Archive.", content(("application/x-tar"), ("application/gzip"), ("application/zstd"))),
        ByName, ByQuery, BySize, BySandbox))]
pub(in crate::api) async fn pack(
    Reader(access): Reader,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
) -> Result<Response> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let (compression, kind) = format(query.get("format").map(String::as_str))?;
    let bytes = access.files().pack(&id, path_of("path", path)?, compression).await?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body(bytes)).into_response())
}

/// Unpack an archive.
///
/// Unpacks the whole archive or nothing. The compression is detected. The archive is rejected if a member or a link
/// leads out of the workspace, or if it contains devices or FIFOs. The number of members, their depth and their size
/// are limited.
#[utoipa::path(put, path = "/v1/sandboxes/{id}/files:archive", operation_id = "unpackFiles", tag = "files",
    params(InSandbox, ("path" = Option<String>, Query, description = "Directory to unpack into. Default: the workspace.")),
    request_body(content_type = "application/octet-stream", description = "Tar archive, uncompressed or compressed with gzip or zstd."),
    responses((status = 200, body = ArchiveUnpacked), ByName, ByQuery, ByUpload, BySize, BySandbox))]
pub(in crate::api) async fn unpack(
    User(access): User,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    archive: Upload,
) -> Result<Json<ArchiveUnpacked>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let unpacked = access.files().unpack(&id, path_of("path", path)?, archive.into_stream()).await?;
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
