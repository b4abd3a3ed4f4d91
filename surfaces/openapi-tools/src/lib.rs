//! sandboxd's tools as an OpenAPI tool server, for hosts that call tools over plain HTTP, such as Open WebUI.
//!
//! `GET /openapi.json` describes the tools, one operation each. `POST /{tool}` calls one: the body has its arguments,
//! and the response its result. Every call goes to the daemon as a request of its HTTP API, with the caller's own
//! token.

mod document;
mod reply;

use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use surface_caller::{Conversation, Shared};
use tokio_util::sync::CancellationToken;
use toolbox::{Approval, Call, Progress, Toolbox};

/// The description of all tools. It never changes.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(document::document().to_string()));

/// Creates the routes. Requests that reach them must be authenticated, and their `Host` and `Origin` checked.
pub fn routes(shared: Shared) -> Router {
    Router::new()
        .route("/openapi.json", get(describe))
        .route("/{tool}", post(call))
        .fallback(unknown_route)
        .with_state(shared)
}

async fn describe() -> Response {
    ([(CONTENT_TYPE, reply::JSON)], DOCUMENT.clone()).into_response()
}

async fn unknown_route() -> Response {
    reply::failure(StatusCode::NOT_FOUND, "no such route: `GET /tools/openapi.json` describes the tools")
}

async fn call(State(shared): State<Shared>, Path(tool): Path<String>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let caller = shared.callers.caller(&head);
    let conversation = match Conversation::of(&caller.token_name, &head.headers) {
        Ok(conversation) => conversation,
        Err(error) => return reply::failure(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    // The share is held until the end of the call, which keeps the arguments.
    let (body, _share) = match shared.bodies.read(&head.headers, body).await {
        Ok(read) => read,
        Err(error) => return reply::failure(error.status(), &error.to_string()),
    };
    let arguments = match arguments_of(&body) {
        Ok(arguments) => arguments,
        Err(problem) => return reply::failure(StatusCode::BAD_REQUEST, &problem),
    };
    drop(body);
    let toolbox = Toolbox::new(caller.client, conversation.namespace, shared.memory);
    let call = Call {
        session: conversation.session.as_deref(),
        progress: &NoProgress,
        cancel: CancellationToken::new(),
        approval: Approval::Unavailable,
        resumed: None,
    };
    match toolbox.call(&tool, arguments, &call).await {
        Ok(reply) => reply::response(reply),
        Err(error) => reply::failure(StatusCode::NOT_FOUND, &error.to_string()),
    }
}

/// Some hosts send no body for a tool without arguments.
fn arguments_of(body: &[u8]) -> Result<Map<String, Value>, String> {
    if body.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err("the body must be a JSON object with the tool's arguments".into()),
        // The message may repeat what the caller sent, so only the position is returned.
        Err(error) => {
            Err(format!("the body is not JSON at line {}, column {}", error.line(), error.column()))
        }
    }
}

/// Discards progress, because a plain HTTP response cannot report it.
struct NoProgress;

impl Progress for NoProgress {
    fn pause(&self) -> Option<Duration> {
        None
    }

    fn report<'a>(&'a self, _: &'a str) -> BoxFuture<'a, ()> {
        futures::future::ready(()).boxed()
    }
}
