//! The content of a file for the user: `display_file`, and the bytes that the file browser shows.

use axum::extract::{Path, State};
use sandbox_api::files::FileKind;
use serde_json::json;

use crate::access::Chat;
use crate::content::{kind_of, open, shown};
use crate::discovery::ok;
use crate::failure::is_missing_file;
use crate::params::Params;
use crate::paths;
use crate::server::{Answer, Server};

/// Shows nothing: Open WebUI opens the file when it reads the result.
pub(crate) async fn display(State(server): State<Server>, chat: Chat, params: Params) -> Answer {
    let path = paths::readable(params.required("path")?, &server.cwds.of(&chat))?;
    let exists = match chat.find().await? {
        Some(sandbox) => match chat.client.stat_file(&sandbox, &path).await {
            // The target of a link is not known before it is opened.
            Ok(found) => matches!(found.kind, FileKind::File | FileKind::Symlink),
            Err(error) if is_missing_file(&error) => false,
            Err(error) => return Err(error.into()),
        },
        None => false,
    };
    Ok(ok(&json!({ "path": path, "exists": exists })))
}

pub(crate) async fn view(State(server): State<Server>, chat: Chat, params: Params) -> Answer {
    let path = paths::readable(params.required("path")?, &server.cwds.of(&chat))?;
    content(&chat, &path).await
}

/// The same with the path in the URL, so that links between files work.
pub(crate) async fn serve(chat: Chat, Path(path): Path<String>) -> Answer {
    content(&chat, &paths::readable(&format!("/{path}"), "/")?).await
}

async fn content(chat: &Chat, path: &str) -> Answer {
    Ok(shown(kind_of(path), open(chat, path).await?))
}
