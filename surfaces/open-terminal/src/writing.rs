//! Changes of a file: `write_file` and `replace_file_content`.

use axum::extract::State;
use http::StatusCode;
use sandbox_api::ErrorCode;
use sandbox_client::WriteOptions;
use serde::Deserialize;
use serde_json::json;

use crate::access::Chat;
use crate::discovery::ok;
use crate::edits::{self, Replacement};
use crate::failure::Failure;
use crate::params::Json;
use crate::{Answer, Server, paths, reading};

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

pub(crate) async fn write(State(server): State<Server>, chat: Chat, Json(write): Json<Write>) -> Answer {
    let path = paths::writable(&write.path, &server.cwds.of(&chat))?;
    let size = write.content.len();
    chat.client.put_file(&chat.open().await?, &path, write.content, WriteOptions::default()).await?;
    Ok(ok(&json!({ "path": path, "size": size })))
}

pub(crate) async fn replace(
    State(server): State<Server>,
    chat: Chat,
    Json(replace): Json<Replace>,
) -> Answer {
    let path = paths::writable(&replace.path, &server.cwds.of(&chat))?;
    let opened = reading::open(&chat, &path).await?;
    let etag = opened.etag().map(str::to_owned);
    let before = String::from_utf8(opened.bytes(edits::MAX_FILE_BYTES).await?)
        .map_err(|_| Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the file is not UTF-8 text"))?;
    let after = edits::apply(before, &replace.replacements)?;
    let size = after.len();
    let options = WriteOptions { if_match: etag.as_deref(), ..WriteOptions::default() };
    match chat.client.put_file(&chat.open().await?, &path, after, options).await {
        Err(error) if error.code() == Some(ErrorCode::PreconditionFailed) => {
            Err(Failure::new(StatusCode::CONFLICT, "the file changed during the edit: read it again"))
        }
        written => {
            written?;
            Ok(ok(&json!({ "path": path, "size": size })))
        }
    }
}
