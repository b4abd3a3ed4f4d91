//! Files: wire to model and back.

use axum::extract::State;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sandbox_api::Done;
use sandbox_api::files::{FileRead, FileToWrite, WriteFiles};

use super::ApiState;
use super::body::Json;
use super::error::Result;
use super::openapi::InSandbox;
use super::openapi::answers::*;
use super::params::{self, Params, Path};
use crate::model::files::NewFile;
use crate::model::{FieldError, limits};

/// Write files
///
/// All of them or none. Directories on the way are made.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files:write", operation_id = "writeFiles", tag = "files",
    params(InSandbox), request_body = WriteFiles, responses((status = 200, body = Done), ByName, ByBody, BySandbox))]
pub(super) async fn write(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Json(wish): Json<WriteFiles>,
) -> Result<Json<Done>> {
    let id = params::sandbox(&id)?;
    if wish.files.is_empty() || wish.files.len() > limits::MAX_FILES_PER_WRITE {
        let problem = format!("must be 1 to {}", limits::MAX_FILES_PER_WRITE);
        return Err(FieldError::new("files", problem).into());
    }
    let files: std::result::Result<Vec<NewFile>, FieldError> =
        wish.files.into_iter().enumerate().map(|(at, file)| new_file(at, file)).collect();
    state.service.write_files(&id, files?).await?;
    Ok(Json(Done::OK))
}

/// Read a file
///
/// The whole of a file that is not too long, or that there is none.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files:read", operation_id = "readFile", tag = "files",
    params(InSandbox, ("path" = String, Query, description = "Under the workspace, or relative to it.")),
    responses((status = 200, body = FileRead), ByName, ByQuery, BySize, BySandbox))]
pub(super) async fn read(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    query: Params,
) -> Result<Json<FileRead>> {
    let id = params::sandbox(&id)?;
    let path = query.get("path").map(String::as_str).unwrap_or_default();
    check_path("path", path)?;
    let content = state.service.read_file(&id, path).await?;
    let content_base64 = content.map(|content| BASE64_STANDARD.encode(content));
    Ok(Json(FileRead { found: content_base64.is_some(), content_base64 }))
}

fn new_file(at: usize, file: FileToWrite) -> std::result::Result<NewFile, FieldError> {
    check_path(&format!("files[{at}].path"), &file.path)?;
    if file.mode.is_some_and(|mode| mode > 0o777) {
        return Err(FieldError::new(format!("files[{at}].mode"), "must be 0 to 511 (0o777)"));
    }
    let content = BASE64_STANDARD.decode(&file.content_base64).map_err(|error| {
        FieldError::new(format!("files[{at}].contentBase64"), format!("is not base64: {error}"))
    })?;
    Ok(NewFile { path: file.path, mode: file.mode, content: content.into() })
}

/// What no path can be. Where a path leads is found out inside the sandbox.
fn check_path(field: &str, path: &str) -> std::result::Result<(), FieldError> {
    if path.is_empty() || path.len() > limits::MAX_PATH_BYTES || path.contains('\0') {
        let problem = format!("must be 1 to {} bytes without NUL", limits::MAX_PATH_BYTES);
        return Err(FieldError::new(field, problem));
    }
    Ok(())
}
