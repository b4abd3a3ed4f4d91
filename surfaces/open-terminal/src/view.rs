//! The content of a file for the user: `display_file`, and the bytes that the file browser shows.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use sandbox_api::files::FileKind;
use sandbox_client::FileContent;
use serde_json::json;

use crate::access::Chat;
use crate::discovery::ok;
use crate::failure::is_missing_file;
use crate::params::Params;
use crate::{Answer, Server, paths, reading};

/// A page from a sandbox may run scripts, but in an origin of its own. Open WebUI passes the header to the browser.
const SANDBOXED: HeaderValue = HeaderValue::from_static("sandbox allow-scripts");

const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

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
    Ok(shown(kind_of(path), reading::open(chat, path).await?))
}

/// Responds with the content of a file. It is passed on as it arrives.
pub(crate) fn shown(kind: HeaderValue, content: FileContent) -> Response {
    let length = content.length();
    let mut response: Response = ([(CONTENT_TYPE, kind)], Body::from_stream(content)).into_response();
    if let Some(length) = length {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    secured(response)
}

/// Media type of a file, by its name.
pub(crate) fn kind_of(path: &str) -> HeaderValue {
    let kind = mime_guess::from_path(path).first_raw();
    kind.map_or(BINARY, HeaderValue::from_static)
}

/// Adds the headers that separate content of a sandbox from the pages of Open WebUI.
pub(crate) fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOXED);
    headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    response
}
