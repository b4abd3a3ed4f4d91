//! Uploads and downloads of files in a chat's workspace. Browsers always save files and never display them.

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::chat_ref::ChatWorkspace;
use super::error::{Error, Result};
use super::{Api, MAX_UPLOAD_BYTES};

/// Maximum length of a path in bytes.
const MAX_PATH_BYTES: usize = 4096;

#[derive(Debug, Deserialize)]
pub(super) struct PathQuery {
    #[serde(default)]
    path: String,
    cursor: Option<String>,
}

/// `GET /api/chats/{id}/files`
pub(super) async fn list(
    ChatWorkspace(_, workspace): ChatWorkspace,
    Query(at): Query<PathQuery>,
) -> Result<Json<Value>> {
    let path = at.path()?;
    let Some(page) = workspace.list(path, at.cursor.as_deref()).await? else {
        return Ok(Json(json!({ "path": path, "entries": [], "nextCursor": null, "sandbox": false })));
    };
    let entries: Vec<Value> = page
        .entries
        .into_iter()
        .map(|entry| {
            let beneath = if path.is_empty() { entry.name.clone() } else { format!("{path}/{}", entry.name) };
            let mut length = json!(entry);
            length["path"] = json!(beneath);
            length
        })
        .collect();
    Ok(Json(json!({ "path": path, "entries": entries, "nextCursor": page.next_cursor, "sandbox": true })))
}

/// `GET /api/chats/{id}/files/content`
pub(super) async fn read(
    ChatWorkspace(_, workspace): ChatWorkspace,
    Query(at): Query<PathQuery>,
) -> Result<Response> {
    let path = at.file()?;
    let download = workspace.download(path).await?;
    let mut response =
        Body::from_stream(download.content.map(|piece| piece.map_err(std::io::Error::other))).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, attachment(path));
    headers.insert(
        HeaderName::from_static("content-security-policy"),
        HeaderValue::from_static("default-src 'none'; sandbox"),
    );
    if let Some(bytes) = download.bytes {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    Ok(response)
}

/// `PUT /api/chats/{id}/files/content`
pub(super) async fn put(
    ChatWorkspace(chat_ref, workspace): ChatWorkspace,
    State(api): State<Api>,
    Query(at): Query<PathQuery>,
    request: Request,
) -> Result<Json<Value>> {
    let path = at.file()?;
    let length = request.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    let bytes = length.ok_or(Error::Invalid { field: "content-length", problem: "is required".into() })?;
    if bytes > MAX_UPLOAD_BYTES {
        return Err(Error::TooLarge { what: "a file", limit: MAX_UPLOAD_BYTES as usize, unit: "bytes" });
    }
    let content = request.into_body().into_data_stream().map(|piece| piece.map_err(std::io::Error::other));
    workspace.upload(path, bytes, content.boxed()).await?;
    // A chat that was deleted meanwhile must leave no sandbox.
    if !chat_ref.has_sandbox(&api).await? {
        workspace.delete().await?;
        return Err(Error::NotFound { what: "chat" });
    }
    Ok(Json(json!({ "path": path, "size": bytes })))
}

/// `DELETE /api/chats/{id}/files`
pub(super) async fn remove(
    ChatWorkspace(_, workspace): ChatWorkspace,
    Query(at): Query<PathQuery>,
) -> Result<StatusCode> {
    workspace.remove(at.file()?).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl PathQuery {
    fn path(&self) -> Result<&str> {
        let path = self.path.trim_end_matches('/');
        if path.len() > MAX_PATH_BYTES || path.contains('\0') {
            let problem = format!("must be at most {MAX_PATH_BYTES} bytes long, without NUL");
            return Err(Error::Invalid { field: "path", problem });
        }
        Ok(path)
    }

    fn file(&self) -> Result<&str> {
        match self.path()? {
            "" => Err(Error::Invalid { field: "path", problem: "must name a file".into() }),
            path => Ok(path),
        }
    }
}

/// Returns a header of RFC 6266 with RFC 8187: the name in ASCII, and the full name beside it.
fn attachment(path: &str) -> HeaderValue {
    let name = path.rsplit('/').next().unwrap_or(path);
    let plain: String = name
        .chars()
        .map(|it| if it.is_ascii_alphanumeric() || "._- ".contains(it) { it } else { '_' })
        .collect();
    let full: String =
        url::form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20");
    HeaderValue::from_str(&format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{full}"))
        .unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_add_parameters() {
        let length = attachment("a/ä \"b\"\r\nx: y.txt");
        assert_eq!(
            length,
            "attachment; filename=\"_ _b___x_ y.txt\"; filename*=UTF-8''%C3%A4%20%22b%22%0D%0Ax%3A%20y.txt"
        );
        assert_eq!(attachment("a.txt"), "attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt");
    }
}
