//! Snapshots as files: `GET /v1/snapshots/{snapshotId}:export` and `POST /v1/snapshots:import`.

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use sandbox_api::snapshot::Snapshot;

use super::body::{Json, Upload};
use super::caller::{Reader, User};
use super::error::Result;
use super::files::body;
use super::openapi::InSnapshot;
use super::openapi::answers::*;
use super::params::{self, Params, Path};
use super::snapshot::{name_of, to_wire, ttl_of};
use crate::service::ImportOptions;

/// Export a snapshot.
///
/// Returns the snapshot as one file, which this or another daemon can import. It is not encrypted, and needs no key of
/// this daemon. Each part is verified while it is read. If one is damaged, the connection breaks off, so the file is
/// incomplete and cannot be imported. The snapshot cannot be deleted meanwhile.
#[utoipa::path(get, path = "/v1/snapshots/{snapshotId}:export", operation_id = "exportSnapshot",
    tag = "snapshots", params(InSnapshot),
    responses((status = 200, description = "The file.", content_type = "application/octet-stream"),
        ByName, BySize, BySandbox))]
pub(super) async fn export(Reader(access): Reader, Path(id): Path<String>) -> Result<Response> {
    let id = access.snapshot(params::snapshot(&id)?).await?;
    let bytes = access.snapshots().export(&id).await?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body(bytes)).into_response())
}

/// Import a snapshot.
///
/// Makes a snapshot of a file that was exported. It belongs to no sandbox, so its `sandboxId` is that of none. Every part
/// is verified. A file that is incomplete, damaged or not valid is rejected, and nothing of it is kept.
#[utoipa::path(post, path = "/v1/snapshots:import", operation_id = "importSnapshot", tag = "snapshots",
    params(("name" = Option<String>, Query, description = "Display name. Default: the name in the file."),
        ("ttlMs" = Option<u64>, Query, description = "Time in milliseconds after which the snapshot is deleted. Default: never.")),
    request_body(content_type = "application/octet-stream", description = "A file that was exported."),
    responses((status = 200, body = Snapshot), ByQuery, ByUpload, BySize, BySandbox))]
pub(super) async fn import(User(access): User, query: Params, file: Upload) -> Result<Json<Snapshot>> {
    let ttl: Option<u64> = params::optional(&query, "ttlMs", "a number")?;
    let options = ImportOptions {
        owner: access.creator()?.clone(),
        name: query.get("name").cloned().map(name_of).transpose()?,
        ttl: ttl.map(ttl_of).transpose()?,
    };
    let imported = access.snapshots().import(file.into_stream(), options).await;
    let imported = imported?;
    access.found("snapshotId", &imported.id);
    Ok(Json(to_wire(imported)))
}
