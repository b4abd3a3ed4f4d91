//! One path of streamable HTTP, with sessions of its own.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use surface_caller::{Callers, MAX_BODY_BYTES};
use tokio_util::sync::CancellationToken;

use crate::session_owner::{Owners, translate};
use crate::sessions::{Ids, Sessions};

/// Creates the route. `create` makes the server of each session and of each request without one. `key` signs the ids of
/// sessions: with another key, they are those of another route.
pub(crate) fn route<H: ServerHandler>(
    path: &str,
    callers: Arc<dyn Callers>,
    key: [u8; 32],
    shutdown: CancellationToken,
    create: impl Fn() -> H + Send + Sync + 'static,
) -> Router {
    // The daemon's router has checked both headers by its own list of hosts.
    let mut config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_json_response(true)
        .with_cancellation_token(shutdown);
    config.session_store = Some(Arc::new(Ids::default()));
    let create = move || Ok::<_, io::Error>(create());
    let service = StreamableHttpService::new(create, Arc::new(Sessions::new()), config);
    let owners = Owners::new(key, callers);
    Router::new().route_service(path, service).layer(from_fn_with_state(owners, translate))
}
