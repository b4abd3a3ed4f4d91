//! The working directory of a chat. Relative paths begin there, and commands and terminals start there.

use axum::extract::State;
use sandbox_api::WORKSPACE;
use serde::Deserialize;
use serde_json::json;

use crate::access::Chat;
use crate::discovery::ok;
use crate::failure::Failure;
use crate::params::Json;
use crate::paths;
use crate::server::{Answer, Server};

#[derive(Deserialize)]
pub(crate) struct Directory {
    path: String,
}

/// Open WebUI calls it for every message, so it opens no sandbox.
pub(crate) async fn get(State(server): State<Server>, chat: Chat) -> Answer {
    let root = json!({ "path": WORKSPACE, "label": "Workspace" });
    Ok(ok(&json!({ "cwd": server.cwds.of(&chat), "home": WORKSPACE, "root": root })))
}

pub(crate) async fn set(
    State(server): State<Server>,
    chat: Chat,
    Json(Directory { path }, _): Json<Directory>,
) -> Answer {
    let path = paths::writable(&path, &server.cwds.of(&chat))?;
    let listed = chat.client.list_files(&chat.open().await?, &path, 1, 1, None).await;
    listed.map_err(|error| match Failure::from(error) {
        failure if failure.is_of_file() => Failure::not_found("Directory not found"),
        failure => failure,
    })?;
    server.cwds.set(&chat, path.clone());
    Ok(ok(&json!({ "cwd": path })))
}
