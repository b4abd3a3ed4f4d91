//! The content of a file, and the response that passes it on.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use sandbox_client::FileContent;

use crate::access::Chat;
use crate::failure::{Failure, is_missing_file};

/// A page from a sandbox may run scripts, but in an origin of its own. Open WebUI passes the header to the browser.
const SANDBOXED: HeaderValue = HeaderValue::from_static("sandbox allow-scripts");

const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Opens a file, if the chat has a sandbox with it.
pub(crate) async fn open(chat: &Chat, path: &str) -> Result<FileContent, Failure> {
    let sandbox = chat.find().await?.ok_or_else(missing)?;
    chat.client.get_file(&sandbox, path, None).await.map_err(failure)
}

/// Opens a file for the model, without the values of secret variables.
pub(crate) async fn open_without_secrets(chat: &Chat, path: &str) -> Result<FileContent, Failure> {
    let sandbox = chat.find().await?.ok_or_else(missing)?;
    chat.client.get_file_without_secrets(&sandbox, path).await.map_err(failure)
}

fn missing() -> Failure {
    Failure::not_found("File not found")
}

fn failure(error: sandbox_client::Error) -> Failure {
    if is_missing_file(&error) { missing() } else { error.into() }
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
