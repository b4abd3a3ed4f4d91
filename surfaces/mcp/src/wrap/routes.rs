//! Wrapped servers over streamable HTTP, each at a path of its own.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest, Sha256};
use surface_caller::{Callers, MAX_BODY_BYTES};
use tokio_util::sync::CancellationToken;

use super::handler::Wrapped;
use super::registrations::Registrations;
use super::upstreams::Upstreams;
use crate::session_owner::{Owners, translate};
use crate::sessions::{Ids, Sessions};

/// Creates the route `/mcp/{sandbox}/{name}`. Its requests must be authenticated, and their bodies read.
pub(crate) fn http(callers: Arc<dyn Callers>, key: [u8; 32], shutdown: CancellationToken) -> Router {
    // The ids of other sessions mean nothing here.
    let key = Sha256::digest([&key[..], b"wrapped"].concat()).into();
    let owners = Owners::new(key, Arc::clone(&callers));
    let upstreams = Upstreams::default();
    upstreams.stop_at(shutdown.clone());
    let mut config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_json_response(true)
        .with_cancellation_token(shutdown);
    config.session_store = Some(Arc::new(Ids::default()));
    let registrations = Registrations::Daemon { callers, upstreams };
    let create = move || Ok(Wrapped::new(registrations.clone()));
    let service = StreamableHttpService::new(create, Arc::new(Sessions::new()), config);
    let route = Router::new().route_service("/mcp/{sandbox}/{name}", service);
    route.layer(from_fn_with_state(owners, translate))
}
