//! Responses: the result of a tool, or why there is none.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use toolbox::{Block, Reply};

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// The result of a call. The host shows an error's text to the model.
pub(crate) fn response(reply: Reply) -> Response {
    // A command that has failed because it was denied a host has a result.
    if reply.is_error && reply.structured.is_none() {
        return failure(StatusCode::UNPROCESSABLE_ENTITY, &text_of(&reply));
    }
    let result = match reply.structured {
        Some(structured) => structured,
        None => {
            let images = reply.blocks.iter().filter_map(data_url);
            json!({ "text": text_of(&reply), "images": images.collect::<Vec<_>>() })
        }
    };
    answer(StatusCode::OK, &result)
}

/// A call that failed.
pub(crate) fn failure(status: StatusCode, message: &str) -> Response {
    answer(status, &json!({ "error": message }))
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, JSON)], body.to_string()).into_response()
}

fn text_of(reply: &Reply) -> String {
    let texts = reply.blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        Block::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn data_url(block: &Block) -> Option<String> {
    match block {
        Block::Text(_) => None,
        Block::Image { data_base64, mime_type } => Some(format!("data:{mime_type};base64,{data_base64}")),
    }
}
