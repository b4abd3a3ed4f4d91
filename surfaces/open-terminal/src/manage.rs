//! Operations of the file browser: create, move and delete.

use axum::extract::State;
use http::StatusCode;
use sandbox_api::files::{FileKind, MoveFile};
use sandbox_api::{ErrorCode, WORKSPACE};
use sandbox_client::Error as ClientError;
use serde::Deserialize;
use serde_json::json;

use crate::access::Chat;
use crate::discovery::ok;
use crate::failure::{Failure, is_missing_file};
use crate::params::{Json, Params};
use crate::paths;
use crate::server::{Answer, Server};

#[derive(Deserialize)]
pub(crate) struct MakeDirectory {
    path: String,
}

#[derive(Deserialize)]
pub(crate) struct Move {
    source: String,
    destination: String,
}

pub(crate) async fn mkdir(
    State(server): State<Server>,
    chat: Chat,
    Json(made, _): Json<MakeDirectory>,
) -> Answer {
    let path = paths::writable(&made.path, &server.cwds.of(&chat))?;
    chat.client.make_dir(&chat.open().await?, path.as_str()).await?;
    Ok(ok(&json!({ "path": path })))
}

pub(crate) async fn delete(State(server): State<Server>, chat: Chat, params: Params) -> Answer {
    let path = paths::writable(params.required("path")?, &server.cwds.of(&chat))?;
    if path == WORKSPACE {
        return Err(Failure::bad_request("the workspace itself cannot be deleted"));
    }
    let missing = |error| failure_of(error, "Path not found");
    let sandbox = chat.find().await?.ok_or_else(|| Failure::not_found("Path not found"))?;
    let found = chat.client.stat_file(&sandbox, &path).await.map_err(missing)?;
    chat.client.delete_file(&sandbox, &path, true).await.map_err(missing)?;
    let kind = if found.kind == FileKind::Directory { "directory" } else { "file" };
    Ok(ok(&json!({ "path": path, "type": kind })))
}

pub(crate) async fn rename(State(server): State<Server>, chat: Chat, Json(request, _): Json<Move>) -> Answer {
    let cwd = server.cwds.of(&chat);
    let (from, to) = (paths::writable(&request.source, &cwd)?, paths::writable(&request.destination, &cwd)?);
    let request = MoveFile { from: from.clone(), to: to.clone(), overwrite: None };
    let sandbox = chat.find().await?.ok_or_else(|| Failure::not_found("Source path not found"))?;
    match chat.client.move_file(&sandbox, &request).await {
        Ok(_) => Ok(ok(&json!({ "source": from, "destination": to }))),
        Err(error) if error.code() == Some(ErrorCode::AlreadyExists) => {
            Err(Failure::new(StatusCode::CONFLICT, "Destination already exists"))
        }
        Err(error) => Err(failure_of(error, "Source path not found")),
    }
}

fn failure_of(error: ClientError, missing: &str) -> Failure {
    if is_missing_file(&error) { Failure::not_found(missing) } else { error.into() }
}
