//! Download links: `POST …/files:link`.

use std::time::Duration;

use axum::http::HeaderMap;
use jiff::Timestamp;
use sandbox_api::files::{FileLink, LinkFile};

use super::super::caller::User;
use super::named;
use crate::api::body::Json;
use crate::api::error::Result;
use crate::api::hosts;
use crate::api::openapi::InSandbox;
use crate::api::openapi::answers::*;
use crate::api::params::{self, Path};
use crate::model::download::link_path;
use crate::model::field::checked;
use crate::model::limits::{DEFAULT_DOWNLOAD_TTL, DOWNLOAD_TTL_MS};

/// Create a download link.
///
/// Returns a URL that downloads a file in a browser, without other credentials. It cannot be revoked. The file is
/// opened for each download, so it may change or disappear until then.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files:link", operation_id = "linkFile", tag = "files",
    params(InSandbox), request_body = LinkFile,
    responses((status = 200, body = FileLink), ByName, ByBody, BySandbox))]
pub(in crate::api) async fn create(
    User(access): User,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(request): Json<LinkFile>,
) -> Result<Json<FileLink>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let path = named("path", request.path.into())?;
    let ttl = match request.ttl_ms {
        Some(ttl_ms) => Duration::from_millis(checked("ttlMs", ttl_ms, DOWNLOAD_TTL_MS)?),
        None => DEFAULT_DOWNLOAD_TTL,
    };
    let link = access.downloads().create_link(&id, path, ttl).await?;
    let settings = access.previews().settings();
    Ok(Json(FileLink {
        url: settings.download_url(&link_path(&link), hosts::of(&headers)),
        expires_at: Timestamp::from_millisecond(link.grant.expires_at_ms).unwrap_or(Timestamp::MAX),
        size: link.size_bytes,
    }))
}
