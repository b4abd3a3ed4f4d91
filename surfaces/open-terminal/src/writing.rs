//! Changes of a file: `write_file` and `replace_file_content`.

use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use sandbox_api::ErrorCode;
use sandbox_client::{FileContent, WriteOptions};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::access::Chat;
use crate::discovery::ok;
use crate::edits::{self, EditPermit, Replacement};
use crate::failure::Failure;
use crate::params::Json;
use crate::server::{Answer, Server};
use crate::{content, paths};

/// How long an edit may take once it has begun.
const EDIT: Duration = Duration::from_secs(60);

const LATE: &str = "the sandbox is too slow for the edit: read the file again before another attempt";

#[derive(Deserialize)]
pub(crate) struct Write {
    path: String,
    content: String,
}

#[derive(Deserialize)]
pub(crate) struct Replace {
    path: String,
    replacements: Vec<Replacement>,
}

pub(crate) async fn write(
    State(server): State<Server>,
    chat: Chat,
    Json(write, _share): Json<Write>,
) -> Answer {
    let path = paths::writable(&write.path, &server.cwds.of(&chat))?;
    let size = write.content.len();
    chat.client.put_file(&chat.open().await?, &path, write.content, WriteOptions::default()).await?;
    Ok(ok(&json!({ "path": path, "size": size })))
}

pub(crate) async fn replace(
    State(server): State<Server>,
    chat: Chat,
    Json(replace, _share): Json<Replace>,
) -> Answer {
    let path = paths::writable(&replace.path, &server.cwds.of(&chat))?;
    let opened = content::open(&chat, &path).await?;
    let permit = server.edits.permit().await?;
    let edited = timeout(EDIT, edit(&chat, &path, opened, replace.replacements, permit)).await;
    edited.unwrap_or_else(|_| Err(Failure::new(StatusCode::GATEWAY_TIMEOUT, LATE)))
}

/// Reads, changes and writes a file. Others may be waiting for the permit.
async fn edit(
    chat: &Chat,
    path: &str,
    opened: FileContent,
    replacements: Vec<Replacement>,
    permit: EditPermit,
) -> Answer {
    let etag = opened.etag().map(str::to_owned);
    let before = String::from_utf8(opened.bytes(edits::MAX_FILE_BYTES).await?)
        .map_err(|_| Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the file is not UTF-8 text"))?;
    let (after, _permit) = permit.apply(before, replacements).await?;
    let size = after.len();
    let options = WriteOptions { if_match: etag.as_deref(), ..WriteOptions::default() };
    match chat.client.put_file(&chat.open().await?, path, after, options).await {
        Err(error) if error.code() == Some(ErrorCode::PreconditionFailed) => {
            Err(Failure::new(StatusCode::CONFLICT, "the file changed during the edit: read it again"))
        }
        written => {
            written?;
            Ok(ok(&json!({ "path": path, "size": size })))
        }
    }
}
