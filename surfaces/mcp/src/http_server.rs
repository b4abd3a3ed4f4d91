//! Streamable HTTP.

use std::sync::Arc;

use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use surface_caller::Callers;
use tokio_util::sync::CancellationToken;
use toolbox::Memory;

use crate::server::{Server, Source};
use crate::sessions::{Ids, Sessions};

/// Serves the requests of the route `/mcp`.
pub type Service = StreamableHttpService<Server, Sessions>;

/// Maximum length of a request's body in bytes.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Creates the service. Requests that reach it must be authenticated, and their `Host` and `Origin` checked. `key` is a
/// secret of the installation. It signs the ids of sessions.
pub fn http(
    callers: Arc<dyn Callers>,
    memory: Memory,
    key: [u8; 32],
    shutdown: CancellationToken,
) -> Service {
    let ids = Ids::new(key);
    // The daemon's router has checked both headers by its own list of hosts.
    let mut config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_json_response(true)
        .with_cancellation_token(shutdown);
    config.session_store = Some(Arc::new(ids.clone()));
    let create = move || Ok(Server::new(Source::Requests(Arc::clone(&callers)), memory.clone()));
    StreamableHttpService::new(create, Arc::new(Sessions::new(ids)), config)
}
