//! Stored chats, and tickets for temporary ones.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bash_tools::session::ChatKey;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Api;
use super::body::must_be_json;
use super::caller::Caller;
use super::chat_ref::ChatRef;
use super::error::{Error, Result};
use super::title::{self, MAX_TITLE_CHARS};
use crate::store::{Chat, ChatPage};

/// Default and maximum number of chats in a list.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 200;

#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    limit: Option<u32>,
    cursor: Option<String>,
}

/// What is to change. Without a field, it stays.
#[derive(Debug, Deserialize)]
pub(super) struct ChatChange {
    title: Option<String>,
    /// The model of the next answer.
    model: Option<String>,
}

/// `GET /api/chats`
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    which: std::result::Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<ChatPage>> {
    let Query(which) =
        which.map_err(|error| Error::Invalid { field: "query", problem: error.body_text() })?;
    let limit = which.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE);
    Ok(Json(api.store.chats_of(caller.owner()).chats(limit, which.cursor.as_deref()).await?))
}

/// `GET /api/changes`: one line for each change of a chat of the caller, until the connection ends.
pub(super) async fn changes(State(api): State<Api>, caller: Caller) -> Result<Response> {
    let page = api.changes.open(caller.owner())?;
    let headers =
        [(CONTENT_TYPE, "application/x-ndjson"), (HeaderName::from_static("x-accel-buffering"), "no")];
    Ok((headers, Body::from_stream(page.into_lines())).into_response())
}

/// `GET /api/chats/{id}`
pub(super) async fn read(State(api): State<Api>, chat_ref: ChatRef) -> Result<Json<Value>> {
    let chat = found(chat_ref.chats.chat(&chat_ref.id).await?)?;
    let messages = chat_ref.chats.messages(&chat_ref.id).await?;
    let mut answer = json!(chat);
    answer["messages"] = json!(messages);
    let turn_id = api.turns.running_id(&chat_ref.key);
    answer["running"] = json!(turn_id.is_some());
    answer["turnId"] = json!(turn_id);
    Ok(Json(answer))
}

/// `PATCH /api/chats/{id}`
pub(super) async fn change(
    State(api): State<Api>,
    chat_ref: ChatRef,
    headers: HeaderMap,
    request: std::result::Result<Json<ChatChange>, JsonRejection>,
) -> Result<Json<Chat>> {
    must_be_json(&headers)?;
    let bad = |field, problem: String| Error::Invalid { field, problem };
    let Json(change) = request.map_err(|error| bad("body", error.body_text()))?;
    let wanted = || format!("must be 1 to {MAX_TITLE_CHARS} visible characters, in one line");
    let title = match &change.title {
        Some(title) => Some(title::given(title).ok_or_else(|| bad("title", wanted()))?),
        None => None,
    };
    let model = change.model.as_deref();
    if model.is_some_and(|model| !api.models.contains_key(model)) {
        return Err(bad("model", "must be one of the models of `GET /api/app`".into()));
    }
    if title.is_none() && model.is_none() {
        return Err(bad("body", "must have `title` or `model`".into()));
    }
    chat_ref.chats.change(&chat_ref.id, title, model).await?;
    chat_ref.tell(&api.changes);
    Ok(Json(found(chat_ref.chats.chat(&chat_ref.id).await?)?))
}

/// `DELETE /api/chats/{id}`: deletes a chat with its sandbox.
pub(super) async fn delete(State(api): State<Api>, chat_ref: ChatRef) -> Result<StatusCode> {
    let _place = api.turns.end(&chat_ref.key).await?;
    // The files first. If they cannot be removed, the chat stays, so that the user can try again.
    delete_sandbox(&api, &chat_ref.key).await?;
    if chat_ref.is_kept {
        chat_ref.chats.delete(&chat_ref.id).await?;
    }
    chat_ref.tell(&api.changes);
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a chat's sandbox. A user who may delete the chat may delete its sandbox, even if the gates are closed.
async fn delete_sandbox(api: &Api, key: &ChatKey) -> Result<()> {
    if let Some(tools) = &api.tools {
        tools.sessions().delete(key).await.map_err(|error| Error::Sandbox(error.into()))?;
    }
    Ok(())
}

/// `POST /api/temporary`
pub(super) async fn begin_temporary(State(api): State<Api>, caller: Caller) -> Json<Value> {
    let ticket = api.temporary.issue_to(caller.owner().subject().as_ref());
    let id = ticket.split('.').next().unwrap_or_default();
    Json(json!({ "id": format!("tmp_{id}"), "ticket": ticket }))
}

fn found(chat: Option<Chat>) -> Result<Chat> {
    chat.ok_or(Error::NotFound { what: "chat" })
}
