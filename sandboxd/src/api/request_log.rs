//! Assigns each request an id, writes error bodies with it, and logs each request once.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::middleware::Next;
use axum::response::Response;
use sandbox_api::{ErrorCode, REQUEST_ID_HEADER};
use tracing::{Instrument, debug, error, field, info, info_span, warn};
use uuid::Uuid;

use super::ApiState;
use super::auth;
use super::client_address::ClientAddress;
use super::error::Problem;
use super::verb;

/// Id of a request, for layers and handlers.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) Arc<str>);

/// Outermost layer of the router.
pub(super) async fn log(State(state): State<ApiState>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = format!("req_{}", Uuid::new_v4().simple());
    request.extensions_mut().insert(RequestId(id.as_str().into()));
    let method = request.method().clone();
    // Logs the route instead of the path, because session keys and file names are private.
    let route = request.extensions().get::<MatchedPath>().map(|path| verb::join(path.as_str()));
    let route = route.unwrap_or_else(|| "-".into());

    // Monitoring calls these routes every few seconds.
    let is_probe = auth::is_open(&route);

    let has_detail = auth::is_open_terminal(request.uri().path());
    let peer = request.extensions().get::<ClientAddress>().map(|client| field::display(client.0));

    let span = info_span!("request", request_id = id);
    let mut response = next.run(request).instrument(span).await;
    let problem = response.extensions_mut().remove::<Problem>();
    let status = response.status().as_u16();
    let took = began.elapsed();
    state.service.metrics().request(&route, &method, status, took);
    let took_ms = took.as_secs_f64() * 1000.0;
    match problem {
        None if is_probe => debug!(%method, route, status, took_ms, request_id = id, "request"),
        None => info!(%method, route, status, took_ms, request_id = id, "request"),
        Some(problem) => {
            let error: &(dyn StdError + 'static) = problem.cause.as_ref();
            let code = problem.code;
            if code == ErrorCode::Internal {
                error!(%method, route, status, took_ms, request_id = id, error, "request failed");
            } else if is_probe || code == ErrorCode::RateLimited {
                // Earlier failures of this client are already in the log, so this one must not fill it.
                debug!(%method, route, status, took_ms, request_id = id, peer, %code, error, "request refused");
            } else {
                warn!(%method, route, status, took_ms, request_id = id, peer, %code, error, "request refused");
            }
            response = problem.write_out(response, &id, has_detail);
        }
    }
    keep_private(&mut response);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID_HEADER, value);
    }
    response
}

/// Adds `nosniff` to every response, and keeps caches from storing responses about sandboxes.
fn keep_private(response: &mut Response) {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_json = kind.starts_with(b"application/json") || kind.starts_with(b"application/x-ndjson");
    let is_refusal = response.status().is_client_error() || response.status().is_server_error();
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if (is_json || is_refusal) && !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}
