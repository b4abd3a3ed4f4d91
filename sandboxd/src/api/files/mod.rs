//! Files: wire to model and back.
//!
//! Here is what is answered in JSON; [`content`] has files as they are, [`archive`] many at once, [`watch`] changes.

mod archive;
mod content;
mod precondition;
mod watch;
mod wire;

use axum::extract::State;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use sandbox_api::Done;
use sandbox_api::files::{
    DirMade, EditFile, FileDeleted, FileEdited, FileInfo, FileList, FileRead, FileToWrite, GlobFiles,
    GlobFound, GrepFiles, GrepFound, MakeDir, MoveFile, WriteFiles,
};

pub(super) use archive::{pack, unpack};
pub(super) use content::{get, put};
pub(super) use watch::watch;

use super::ApiState;
use super::body::Json;
use super::error::Result;
use super::params::{self, Params, Path, PathParam};
use crate::model::files::{FilePath, FileTarget, GlobWish, GrepWish, ListWish, NewFile, TextEdit};
use crate::model::sandbox::checked;
use crate::model::{FieldError, limits};

/// `POST …/files:write`
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

/// `GET …/files:read`
pub(super) async fn read(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    PathParam(path): PathParam,
) -> Result<Json<FileRead>> {
    let id = params::sandbox(&id)?;
    let content = state.service.read_whole(&id, named("path", path)?).await?;
    let content_base64 = content.map(|content| BASE64_STANDARD.encode(content));
    Ok(Json(FileRead { found: content_base64.is_some(), content_base64 }))
}

/// `DELETE …/files`
pub(super) async fn delete(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
) -> Result<Json<FileDeleted>> {
    let id = params::sandbox(&id)?;
    let recursive = params::optional(&query, "recursive", "`true` or `false`")?.unwrap_or(false);
    let removed = state.service.delete_file(&id, named("path", path)?, recursive).await?;
    Ok(Json(FileDeleted { ok: true, removed }))
}

/// `GET …/files:stat`
pub(super) async fn stat(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    PathParam(path): PathParam,
) -> Result<Json<FileInfo>> {
    let id = params::sandbox(&id)?;
    Ok(Json(wire::info(state.service.stat_file(&id, path_of("path", path)?).await?)))
}

/// `GET …/files:list`
pub(super) async fn list(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
) -> Result<Json<FileList>> {
    let id = params::sandbox(&id)?;
    let number = |name, default, max: u32| {
        let number = params::optional(&query, name, "a number")?.unwrap_or(default);
        Ok::<_, super::error::ApiError>(checked(name, u64::from(number), 1..=u64::from(max))? as u32)
    };
    let depth = number("depth", 1, limits::MAX_LIST_DEPTH)?;
    let limit = number("limit", limits::DEFAULT_LIST_ENTRIES, limits::MAX_LIST_ENTRIES)?;
    let after = query.get("cursor").map(|cursor| wire::from_cursor(cursor)).transpose()?.unwrap_or_default();
    let wish = ListWish { path: path_of("path", path)?, depth, limit, after };
    Ok(Json(wire::page(state.service.list_files(&id, wish).await?)))
}

/// `POST …/files:mkdir`
pub(super) async fn mkdir(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Json(wish): Json<MakeDir>,
) -> Result<Json<DirMade>> {
    let id = params::sandbox(&id)?;
    let created = state.service.make_dir(&id, named("path", wish.path.into())?).await?;
    Ok(Json(DirMade { ok: true, created }))
}

/// `POST …/files:move`
pub(super) async fn rename(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Json(wish): Json<MoveFile>,
) -> Result<Json<Done>> {
    let id = params::sandbox(&id)?;
    let (from, to) = (named("from", wish.from.into())?, named("to", wish.to.into())?);
    state.service.move_file(&id, from, to, wish.overwrite.unwrap_or(false)).await?;
    Ok(Json(Done::OK))
}

/// `POST …/files:edit`
pub(super) async fn edit(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Json(wish): Json<EditFile>,
) -> Result<Json<FileEdited>> {
    let id = params::sandbox(&id)?;
    let edits = wish.edits.into_iter().map(|edit| TextEdit {
        old_text: edit.old_text,
        new_text: edit.new_text,
        replace_all: edit.replace_all.unwrap_or(false),
    });
    let edited = state.service.edit_file(&id, named("path", wish.path.into())?, edits.collect()).await?;
    Ok(Json(wire::edited(edited)))
}

/// `POST …/files:grep`
pub(super) async fn grep(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Json(wish): Json<GrepFiles>,
) -> Result<Json<GrepFound>> {
    let id = params::sandbox(&id)?;
    let wish = GrepWish {
        path: path_of("path", wish.path.unwrap_or_default().into())?,
        query: wish.query,
        regex: wish.regex.unwrap_or(false),
        case_insensitive: wish.case_insensitive.unwrap_or(false),
        include: wish.include.map(Into::into).unwrap_or_default(),
        max_results: max_results(wish.max_results)?,
        include_ignored: wish.include_ignored.unwrap_or(false),
    };
    Ok(Json(wire::grep_found(state.service.grep(&id, wish).await?)))
}

/// `POST …/files:glob`
pub(super) async fn glob(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Json(wish): Json<GlobFiles>,
) -> Result<Json<GlobFound>> {
    let id = params::sandbox(&id)?;
    let wish = GlobWish {
        path: path_of("path", wish.path.unwrap_or_default().into())?,
        pattern: wish.pattern,
        exclude: wish.exclude.map(Into::into).unwrap_or_default(),
        max_results: max_results(wish.max_results)?,
        include_ignored: wish.include_ignored.unwrap_or(false),
    };
    Ok(Json(wire::glob_found(state.service.glob(&id, wish).await?)))
}

fn max_results(wished: Option<u32>) -> Result<u32> {
    let wished = wished.unwrap_or(limits::DEFAULT_SEARCH_RESULTS);
    Ok(checked("maxResults", u64::from(wished), 1..=u64::from(limits::MAX_SEARCH_RESULTS))? as u32)
}

fn new_file(at: usize, file: FileToWrite) -> std::result::Result<NewFile, FieldError> {
    let path = named(&format!("files[{at}].path"), file.path.into())?;
    if file.mode.is_some_and(|mode| mode > MAX_MODE) {
        return Err(FieldError::new(format!("files[{at}].mode"), MODE_PROBLEM));
    }
    let content = BASE64_STANDARD.decode(&file.content_base64).map_err(|error| {
        FieldError::new(format!("files[{at}].contentBase64"), format!("is not base64: {error}"))
    })?;
    let target = FileTarget { path, mode: file.mode, if_match: None, if_absent: false };
    Ok(NewFile { target, content: content.into() })
}

/// Permission bits of a file: no setuid, setgid or sticky bit.
const MAX_MODE: u32 = 0o777;
const MODE_PROBLEM: &str = "must be 0 to 511 (0o777)";

/// A path that names something in the workspace.
fn named(field: &str, path: Bytes) -> std::result::Result<FilePath, FieldError> {
    if path.is_empty() {
        let problem = format!("must be 1 to {} bytes without NUL", limits::MAX_PATH_BYTES);
        return Err(FieldError::new(field, problem));
    }
    path_of(field, path)
}

/// What no path can be. Where a path leads is found out inside the sandbox. An empty one is the workspace.
fn path_of(field: &str, path: Bytes) -> std::result::Result<FilePath, FieldError> {
    if path.len() > limits::MAX_PATH_BYTES || path.contains(&0) {
        let problem = format!("must be at most {} bytes without NUL", limits::MAX_PATH_BYTES);
        return Err(FieldError::new(field, problem));
    }
    Ok(FilePath(path))
}
