//! Streamable HTTP.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode};
use rmcp::ServerHandler;
use rmcp::model::{ErrorData, JsonRpcError};
use serde::de::IgnoredAny;
use surface_caller::{Bodies, BodyError, Shared};
use tokio_util::sync::CancellationToken;

use crate::seal::Seal;
use crate::server::{Server, Source};
use crate::streamable;
use crate::subscriptions::Watches;
use crate::wrap;

/// Creates the route `/mcp`, and `/mcp/{sandbox}/{name}` for wrapped servers. Requests that reach it must be
/// authenticated, and their `Host` and `Origin` checked. `key` is a secret of the installation. It signs the ids of
/// sessions and the state of calls that wait for the user.
pub fn http(shared: Shared, key: [u8; 32], shutdown: CancellationToken) -> Router {
    http_with(shared, key, shutdown, |server| server)
}

/// Creates the route like [`http`], for a server with additions: `extend` wraps the server of each session and request.
pub fn http_with<H: ServerHandler>(
    shared: Shared,
    key: [u8; 32],
    shutdown: CancellationToken,
    extend: impl Fn(Server) -> H + Send + Sync + 'static,
) -> Router {
    let Shared { callers, memory, bodies } = shared;
    let wrapped = wrap::http(Arc::clone(&callers), key, shutdown.clone());
    let (seal, watches, requests) = (Seal::new(key), Watches::default(), Arc::clone(&callers));
    let create = move || {
        let source = Source::Requests(Arc::clone(&requests));
        extend(Server::new(source, memory.clone(), watches.clone(), seal.clone()))
    };
    let own = streamable::route("/mcp", callers, key, shutdown, create);
    own.merge(wrapped).layer(from_fn_with_state(bodies, read_body))
}

/// Reads the body of a request. Its share of the memory becomes an extension of the request, which the call keeps.
async fn read_body(State(bodies): State<Bodies>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let (bytes, share) = match bodies.read(&head.headers, body).await {
        Ok(read) => read,
        Err(error) => return refusal(error),
    };
    let is_message = head.method == Method::POST && names_json(&head.headers);
    if is_message && let Err(error) = serde_json::from_slice::<IgnoredAny>(&bytes) {
        let data = ErrorData::parse_error(format!("the body is not JSON: {error}"), None);
        return rejection(StatusCode::BAD_REQUEST, data);
    }
    head.extensions.insert(share);
    let response = next.run(Request::from_parts(head, Body::from(bytes))).await;
    // rmcp's response to JSON that is not a message, which is not JSON-RPC itself.
    if is_message && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        let data = ErrorData::invalid_request("the body is not one JSON-RPC message", None);
        return rejection(StatusCode::BAD_REQUEST, data);
    }
    response
}

fn names_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// The response to a request whose body was not read.
fn refusal(error: BodyError) -> Response {
    let data = match error {
        BodyError::NoMemory => ErrorData::internal_error(error.to_string(), None),
        BodyError::TooLarge | BodyError::TooManyValues | BodyError::Incomplete | BodyError::Late => {
            ErrorData::invalid_request(error.to_string(), None)
        }
    };
    rejection(error.status(), data)
}

/// The response to a request whose id is unknown (JSON-RPC 2.0, section 5).
fn rejection(status: StatusCode, data: ErrorData) -> Response {
    let message = serde_json::to_string(&JsonRpcError::new(None, data)).unwrap_or_default();
    (status, [(CONTENT_TYPE, "application/json")], message).into_response()
}
