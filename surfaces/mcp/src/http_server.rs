//! Streamable HTTP.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use rmcp::ServerHandler;
use rmcp::model::{ErrorData, JsonRpcError};
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
    match bodies.read(&head.headers, body).await {
        Ok((bytes, share)) => {
            head.extensions.insert(share);
            next.run(Request::from_parts(head, Body::from(bytes))).await
        }
        Err(error) => refusal(error),
    }
}

/// The response to a request whose body was not read. Its id is unknown.
fn refusal(error: BodyError) -> Response {
    let data = match error {
        BodyError::NoMemory => ErrorData::internal_error(error.to_string(), None),
        BodyError::TooLarge | BodyError::TooManyValues | BodyError::Incomplete | BodyError::Late => {
            ErrorData::invalid_request(error.to_string(), None)
        }
    };
    let message = serde_json::to_string(&JsonRpcError::new(None, data)).unwrap_or_default();
    (error.status(), [(CONTENT_TYPE, "application/json")], message).into_response()
}
