//! File handlers: convert between wire and model types.
//!
//! This module has the JSON routes. [`content`] has raw file content, [`link`] links to it, [`archive`] archives,
//! [`search`] searches, and [`watch`] changes.

pub(super) mod archive;
pub(super) mod content;
pub(super) mod link;
pub(super) mod search;
pub(super) mod watch;
mod wire;

use std::error::Error as StdError;

use axum::body::Body;
use axum::http::HeaderMap;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use sandbox_api::Done;
use sandbox_api::files::{
    DirMade, EditFile, FileDeleted, FileEdited, FileInfo, FileList, FileRead, FileToWrite, MakeDir, MoveFile,
    WriteFiles,
};
use tracing::{Span, warn};

use super::body::Json;
use super::caller::{Reader, User};
use super::error::Result;
use super::openapi::InSandbox;
use super::openapi::answers::*;
use super::params::{self, Params, Path, PathParam};
use crate::content::precondition;
use crate::model::field::checked;
use crate::model::files::{FilePath, FileTarget, ListOptions, NewFile, TextEdit, TextEdits};
use crate::model::{FieldError, limits};
use crate::service::{self, SecretValues};

/// Write files.
///
/// Writes either all files or none. Missing parent directories are created.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files:write", operation_id = "writeFiles", tag = "files",
    params(InSandbox), request_body = WriteFiles,
    responses((status = 200, body = Done), ByName, ByBody, BySandbox))]
pub(super) async fn write(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<WriteFiles>,
) -> Result<Json<Done>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    if request.files.is_empty() || request.files.len() > limits::MAX_FILES_PER_WRITE {
        let problem = format!("must be 1 to {}", limits::MAX_FILES_PER_WRITE);
        return Err(FieldError::new("files", problem).into());
    }
    let files: std::result::Result<Vec<NewFile>, FieldError> =
        request.files.into_iter().enumerate().map(|(at, file)| new_file(at, file)).collect();
    access.files().write_all(&id, files?).await?;
    Ok(Json(Done::OK))
}

/// Read a file.
///
/// Returns the whole file, at most 50 MiB, or `found: false` if it does not exist.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files:read", operation_id = "readFile", tag = "files",
    params(InSandbox, ("path" = String, Query, description = "Path in the workspace, absolute or relative to the workspace. May contain percent-encoded bytes.")),
    responses((status = 200, body = FileRead), ByName, ByQuery, BySize, BySandbox))]
pub(super) async fn read(
    Reader(access): Reader,
    Path(id): Path<String>,
    PathParam(path): PathParam,
) -> Result<Json<FileRead>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let content = access.files().read_whole(&id, named("path", path)?).await?;
    let content_base64 = content.map(|content| BASE64_STANDARD.encode(content));
    Ok(Json(FileRead { found: content_base64.is_some(), content_base64 }))
}

/// Delete a file or directory.
///
/// Does not follow symbolic links. A directory disappears at once, even if its removal takes longer. Supports
/// `if-match`.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/files", operation_id = "deleteFile", tag = "files",
    params(InSandbox, ("path" = String, Query, description = "Path in the workspace, absolute or relative to the workspace. May contain percent-encoded bytes."),
        ("if-match" = Option<String>, Header, description = "Etag that the file must have, or `*`."),
        ("recursive" = Option<bool>, Query, description = "Also deletes a directory that is not empty.")),
    responses((status = 200, body = FileDeleted), ByName, ByQuery, ByState, ByCondition, BySandbox))]
pub(super) async fn delete(
    User(access): User,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
    headers: HeaderMap,
) -> Result<Json<FileDeleted>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let if_match = precondition::if_match(&headers)?;
    let recursive = params::optional(&query, "recursive", "`true` or `false`")?.unwrap_or(false);
    let removed = access.files().delete(&id, named("path", path)?, recursive, if_match).await?;
    Ok(Json(FileDeleted { ok: true, removed }))
}

/// Inspect a path.
///
/// Returns information about a file, directory or link. A symbolic link is not followed.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files:stat", operation_id = "statFile", tag = "files",
    params(InSandbox, ("path" = Option<String>, Query, description = "Path in the workspace. Default: the workspace itself.")),
    responses((status = 200, body = FileInfo), ByName, ByQuery, BySandbox))]
pub(super) async fn stat(
    Reader(access): Reader,
    Path(id): Path<String>,
    PathParam(path): PathParam,
) -> Result<Json<FileInfo>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    Ok(Json(wire::info(access.files().stat(&id, path_of("path", path)?).await?)))
}

/// List a directory.
///
/// Returns entries sorted by the parts of their paths, one page at a time. Does not follow symbolic links.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files:list", operation_id = "listFiles", tag = "files",
    params(InSandbox, ("path" = Option<String>, Query, description = "Directory. Default: the workspace."),
        ("depth" = Option<u32>, Query, description = "Number of levels. 1 lists only the directory itself."),
        ("limit" = Option<u32>, Query, description = "Maximum number of entries. A page may be shorter if paths are long."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page.")),
    responses((status = 200, body = FileList), ByName, ByQuery, BySandbox))]
pub(super) async fn list(
    Reader(access): Reader,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
) -> Result<Json<FileList>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let number = |name, default, max: u32| {
        let number = params::optional(&query, name, "a number")?.unwrap_or(default);
        Ok::<_, super::error::ApiError>(checked(name, u64::from(number), 1..=u64::from(max))? as u32)
    };
    let depth = number("depth", 1, limits::MAX_LIST_DEPTH)?;
    let limit = number("limit", limits::DEFAULT_LIST_ENTRIES, limits::MAX_LIST_ENTRIES)?;
    let after = query
        .get("cursor")
        .filter(|cursor| !cursor.is_empty())
        .map(|cursor| wire::from_cursor(cursor))
        .transpose()?
        .unwrap_or_default();
    let request = ListOptions { path: path_of("path", path)?, depth, limit, after };
    Ok(Json(wire::page(access.files().list(&id, request).await?)))
}

/// Create a directory.
///
/// Creates missing parent directories too. Succeeds if the directory already exists.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files:mkdir", operation_id = "makeDirectory", tag = "files",
    params(InSandbox), request_body = MakeDir,
    responses((status = 200, body = DirMade), ByName, ByBody, BySandbox))]
pub(super) async fn mkdir(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<MakeDir>,
) -> Result<Json<DirMade>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let created = access.files().make_dir(&id, named("path", request.path.into())?).await?;
    Ok(Json(DirMade { ok: true, created }))
}

/// Move a file or directory.
///
/// Creates missing parent directories of the new path.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files:move", operation_id = "moveFile", tag = "files",
    params(InSandbox), request_body = MoveFile,
    responses((status = 200, body = Done), ByName, ByBody, ByState, BySandbox))]
pub(super) async fn rename(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<MoveFile>,
) -> Result<Json<Done>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let (from, to) = (named("from", request.from.into())?, named("to", request.to.into())?);
    access.files().rename(&id, from, to, request.overwrite.unwrap_or(false)).await?;
    Ok(Json(Done::OK))
}

/// Edit a file.
///
/// Applies all edits or none. None is applied if the file changes in the meantime. Line endings, byte order mark and
/// mode are kept.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files:edit", operation_id = "editFile", tag = "files",
    params(InSandbox), request_body = EditFile,
    responses((status = 200, body = FileEdited), ByName, ByBody, ByState, ByCondition, BySandbox))]
pub(super) async fn edit(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<EditFile>,
) -> Result<Json<FileEdited>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let edits = request.edits.into_iter().map(|edit| TextEdit {
        old_text: edit.old_text,
        new_text: edit.new_text,
        replace_all: edit.replace_all.unwrap_or(false),
    });
    let edits =
        TextEdits { edits: edits.collect(), all_on_original: request.all_on_original.unwrap_or(false) };
    let (path, secrets) = (named("path", request.path.into())?, secret_values(request.hide_secrets));
    let edited = access.files().edit(&id, path, edits, secrets).await?;
    Ok(Json(wire::edited(edited)))
}

fn secret_values(hide: Option<bool>) -> SecretValues {
    if hide.unwrap_or(false) { SecretValues::Hidden } else { SecretValues::Shown }
}

fn new_file(at: usize, file: FileToWrite) -> std::result::Result<NewFile, FieldError> {
    let path = named(&format!("files[{at}].path"), file.path.into())?;
    if file.mode.is_some_and(|mode| mode > MAX_MODE) {
        return Err(FieldError::new(format!("files[{at}].mode"), MODE_PROBLEM));
    }
    let content = BASE64_STANDARD.decode(&file.content_base64).map_err(|error| {
        FieldError::new(format!("files[{at}].contentBase64"), format!("is not base64: {error}"))
    })?;
    let target = FileTarget { path, mode: file.mode, if_match: None, if_absent: false, durable: false };
    Ok(NewFile { target, content: content.into() })
}

/// Permission bits of a file, without setuid, setgid and sticky bits.
const MAX_MODE: u32 = 0o777;
const MODE_PROBLEM: &str = "must be 0 to 511 (0o777)";

/// Checks a path that must name an entry of the workspace.
fn named(field: &str, path: Bytes) -> std::result::Result<FilePath, FieldError> {
    if path.is_empty() {
        let problem = format!("must be 1 to {} bytes without NUL", limits::MAX_PATH_BYTES);
        return Err(FieldError::new(field, problem));
    }
    path_of(field, path)
}

/// Checks a path. An empty one is the workspace. Where it leads is resolved inside the sandbox.
fn path_of(field: &str, path: Bytes) -> std::result::Result<FilePath, FieldError> {
    if path.len() > limits::MAX_PATH_BYTES || path.contains(&0) {
        let problem = format!("must be at most {} bytes without NUL", limits::MAX_PATH_BYTES);
        return Err(FieldError::new(field, problem));
    }
    Ok(FilePath(path))
}

/// Body of a response that must be complete. If it breaks off, the client sees the connection end and the log has the
/// reason.
pub(super) fn body(
    bytes: impl Stream<Item = std::result::Result<Bytes, service::Error>> + Send + 'static,
) -> Body {
    let request = Span::current();
    let broke_off = move |error: &service::Error| {
        request.in_scope(|| warn!(error = error as &dyn StdError, "could not send a response to its end"));
    };
    Body::from_stream(bytes.inspect_err(broke_off))
}
