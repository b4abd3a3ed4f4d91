//! Files below /vercel/sandbox.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use axum::Json;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Path as Segments;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Value, json};

use super::machine::HOME;
use super::sandbox::files_of;
use super::{Refusal, State};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    path: String,
    cwd: Option<String>,
    recursive: Option<bool>,
}

impl Target {
    /// The directory that stands for it here.
    fn under(&self, files: &Path) -> Result<PathBuf, Refusal> {
        let path = Path::new(self.cwd.as_deref().unwrap_or(HOME)).join(&self.path);
        here(files, &path).ok_or_else(|| Refusal::not_found("file"))
    }
}

/// A path of the sandbox on this machine.
fn here(files: &Path, path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain.strip_prefix(HOME).ok().map(|rest| files.join(rest))
}

pub(super) async fn mkdir(
    shared: State,
    Segments(session): Segments<String>,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let target: Target = shared.body("mkdir", &body)?;
    let path = target.under(&files_of(&shared, &session)?)?;
    let made = if target.recursive == Some(true) {
        std::fs::create_dir_all(path)
    } else {
        std::fs::create_dir(path)
    };
    made.map_err(|error| Refusal(StatusCode::BAD_REQUEST, "bad_request", error.to_string()))?;
    Ok(Json(json!({})))
}

pub(super) async fn read(
    shared: State,
    Segments(session): Segments<String>,
    body: Bytes,
) -> Result<Response, Refusal> {
    let target: Target = shared.body("read", &body)?;
    let path = target.under(&files_of(&shared, &session)?)?;
    if path.is_dir() {
        return Err(Refusal(StatusCode::BAD_REQUEST, "bad_request", "it is a directory".into()));
    }
    let content = std::fs::read(path).map_err(|_| Refusal::not_found("file"))?;
    Ok(([(CONTENT_TYPE, "application/octet-stream")], content).into_response())
}

pub(super) async fn write(
    shared: State,
    Segments(session): Segments<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Refusal> {
    let files = files_of(&shared, &session)?;
    let refused = |error: String| Refusal(StatusCode::BAD_REQUEST, "bad_request", error);
    let archive = to_bytes(body, usize::MAX).await.map_err(|error| refused(error.to_string()))?;
    let into = headers.get("x-cwd").and_then(|cwd| cwd.to_str().ok()).map(PathBuf::from);
    let Some(into) = into.filter(|into| into.is_absolute()) else {
        return Err(shared.violated("write: x-cwd".into()));
    };
    let mut archive = tar::Archive::new(GzDecoder::new(&*archive));
    for entry in archive.entries().map_err(|error| refused(error.to_string()))? {
        let mut entry = entry.map_err(|error| refused(error.to_string()))?;
        let name = entry.path().unwrap().into_owned();
        let is_relative = name.components().all(|it| matches!(it, Component::Normal(_) | Component::CurDir));
        let Some(path) = here(&files, &into.join(&name)).filter(|_| is_relative) else {
            return Err(shared.violated(format!("write: {name:?} into {into:?}")));
        };
        if entry.header().entry_type().is_dir() {
            std::fs::create_dir_all(&path).map_err(|error| refused(error.to_string()))?;
            continue;
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(|error| refused(error.to_string()))?;
        let mode = std::fs::Permissions::from_mode(entry.header().mode().unwrap());
        let written = std::fs::create_dir_all(path.parent().unwrap())
            .and_then(|()| std::fs::write(&path, &content))
            .and_then(|()| std::fs::set_permissions(&path, mode));
        written.map_err(|error| refused(error.to_string()))?;
    }
    Ok(Json(json!({})))
}
