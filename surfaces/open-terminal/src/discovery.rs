//! Description of the server: its health, features, system prompt and OpenAPI document.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use sandbox_api::WORKSPACE;
use serde_json::{Value, json};

use crate::document;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// The document never changes.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(document::document().to_string()));

/// A response with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, JSON)], body.to_string()).into_response()
}

/// A successful response with a JSON body.
pub(crate) fn ok(body: &Value) -> Response {
    json_response(StatusCode::OK, body)
}

pub(crate) async fn document() -> Response {
    ([(CONTENT_TYPE, JSON)], DOCUMENT.clone()).into_response()
}

pub(crate) async fn health() -> Response {
    ok(&json!({ "status": "ok" }))
}

pub(crate) async fn config() -> Response {
    ok(&json!({ "features": { "terminal": true, "notebooks": false, "system": true } }))
}

/// The prompt is read once for all chats, so it describes no single sandbox.
pub(crate) async fn system() -> Response {
    let prompt = format!(
        "You have access to a sandbox: a Linux computer of this chat, separate from the user's computer. Use your \
         tools to run commands in it, to read and write files, and to search them. Commands start in the workspace, \
         {WORKSPACE}. Its files are kept; files elsewhere may be lost when the sandbox pauses. A command that runs \
         longer than the server's time limit is ended, so start a server in the background, for example with \
         `nohup … &`. Check the output and the exit code of a command. A command without output usually succeeded."
    );
    ok(&json!({ "prompt": prompt }))
}
