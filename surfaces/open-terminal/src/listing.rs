//! The content of a directory: `list_files`.

use axum::extract::State;
use sandbox_api::files::{FileInfo, FileKind};
use sandbox_client::Error as ClientError;
use serde_json::{Value, json};

use crate::access::Chat;
use crate::discovery::ok;
use crate::failure::Failure;
use crate::params::Params;
use crate::paths;
use crate::server::{Answer, Server};

/// Maximum number of entries in a response, and in a page of it.
const MAX_ENTRIES: usize = 10_000;
const PAGE_ENTRIES: u32 = 1000;

pub(crate) async fn list(State(server): State<Server>, chat: Chat, params: Params) -> Answer {
    let directory = paths::readable(params.text("directory").unwrap_or("."), &server.cwds.of(&chat))?;
    let (sandbox, mut entries, mut cursor) = (chat.open().await?, Vec::new(), None);
    while entries.len() < MAX_ENTRIES {
        let page = chat.client.list_files(&sandbox, &directory, 1, PAGE_ENTRIES, cursor.as_deref()).await;
        let page = page.map_err(no_directory)?;
        entries.extend(page.entries);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let is_writable = paths::is_in_workspace(&directory);
    let entries: Vec<Value> = entries.iter().map(|entry| described(entry, is_writable)).collect();
    Ok(ok(&json!({ "dir": directory, "writable": is_writable, "entries": entries })))
}

/// Reports a path that is not a directory like a missing one.
fn no_directory(error: ClientError) -> Failure {
    match Failure::from(error) {
        failure if failure.is_of_file() => Failure::not_found("Directory not found"),
        failure => failure,
    }
}

fn described(entry: &FileInfo, is_writable: bool) -> Value {
    json!({
        "name": entry.name,
        "type": kind_of(entry),
        "size": entry.size,
        "modified": modified(entry),
        "writable": is_writable,
    })
}

/// `directory` or `file`. Clients know no other types.
pub(crate) fn kind_of(entry: &FileInfo) -> &'static str {
    if entry.kind == FileKind::Directory { "directory" } else { "file" }
}

/// Time of the last change in seconds.
pub(crate) fn modified(entry: &FileInfo) -> f64 {
    entry.modified_at.as_millisecond() as f64 / 1000.0
}
