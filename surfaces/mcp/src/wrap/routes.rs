//! Wrapped servers over streamable HTTP, each at a path of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sandbox_api::SandboxId;
use sandbox_api::mcp::McpServer;
use sandbox_client::Client;
use sha2::{Digest, Sha256};
use surface_caller::{Callers, MAX_BODY_BYTES};
use tokio_util::sync::CancellationToken;

use super::handler::Wrapped;
use super::registrations::Registrations;
use super::upstream::Upstream;
use crate::sessions::{Ids, Sessions};

/// Maximum number of servers that are remembered. Those that do not run are forgotten first.
const MAX_UPSTREAMS: usize = 256;

/// Creates the route `/mcp/{sandbox}/{name}`. Its requests must be authenticated, and their bodies read.
pub(crate) fn http(callers: Arc<dyn Callers>, key: [u8; 32], shutdown: CancellationToken) -> Router {
    // The ids of other sessions mean nothing here.
    let ids = Ids::new(Sha256::digest([&key[..], b"wrapped"].concat()).into());
    let upstreams = Upstreams::default();
    upstreams.stop_at(shutdown.clone());
    let mut config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_json_response(true)
        .with_cancellation_token(shutdown);
    config.session_store = Some(Arc::new(ids.clone()));
    let registrations = Registrations::Daemon { callers, upstreams };
    let create = move || Ok(Wrapped::new(registrations.clone()));
    let service = StreamableHttpService::new(create, Arc::new(Sessions::new(ids)), config);
    Router::new().route_service("/mcp/{sandbox}/{name}", service)
}

/// The servers that were used, by registration.
#[derive(Debug, Clone, Default)]
pub(super) struct Upstreams(Arc<Mutex<HashMap<Registration, Arc<Entry>>>>);

/// Identifies a registration: sandbox, name and time. A name that is registered again is another server.
type Registration = (SandboxId, String, i64);

/// One of them.
#[derive(Debug, Default)]
pub(super) struct Entry {
    server: Arc<Upstream>,
    /// Sandbox in which it runs.
    sandbox: Mutex<Option<SandboxId>>,
}

impl Upstreams {
    /// The server of a registration.
    pub(super) fn of(&self, server: &McpServer) -> Result<Arc<Entry>, String> {
        let registration =
            (server.sandbox_id.clone(), server.name.clone(), server.created_at.as_nanosecond() as i64);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.get(&registration) {
            return Ok(Arc::clone(entry));
        }
        if known.len() >= MAX_UPSTREAMS {
            known.retain(|_, entry| Arc::strong_count(entry) > 1 || !entry.server.is_stopped());
        }
        if known.len() >= MAX_UPSTREAMS {
            return Err(format!("{MAX_UPSTREAMS} wrapped servers run already. Try again later"));
        }
        Ok(Arc::clone(known.entry(registration).or_default()))
    }

    /// Ends all servers when the daemon stops.
    fn stop_at(&self, shutdown: CancellationToken) {
        let known = Arc::downgrade(&self.0);
        // Without a runtime there are no servers either.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            shutdown.cancelled().await;
            let Some(known) = known.upgrade() else { return };
            let entries: Vec<_> = known.lock().unwrap_or_else(PoisonError::into_inner).drain().collect();
            for (_, entry) in entries {
                entry.server.stop().await;
            }
        });
    }
}

impl Entry {
    pub(super) fn server(&self) -> Arc<Upstream> {
        Arc::clone(&self.server)
    }

    /// The sandbox in which the server runs. It is created if the server must be started.
    pub(super) async fn sandbox(&self, client: &Client, server: &McpServer) -> Result<SandboxId, String> {
        let known = self.sandbox.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sandbox) = known.filter(|_| !self.server.is_stopped()) {
            return Ok(sandbox);
        }
        // A sandbox is not woken for a server that will not be started.
        self.server.check_pause().await.map_err(|problem| problem.to_string())?;
        let opened = client.open_mcp_server(&server.sandbox_id, &server.name).await;
        let sandbox = opened.map_err(|error| error.to_string())?.runs_in;
        *self.sandbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(sandbox.clone());
        Ok(sandbox)
    }
}
