//! The wrapped servers that calls over HTTP have used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sandbox_api::SandboxId;
use sandbox_api::mcp::McpServer;
use sandbox_client::Client;
use tokio_util::sync::CancellationToken;

use super::upstream::Upstream;

/// Maximum number of servers in the map. Those that do not run are removed first.
const MAX_UPSTREAMS: usize = 256;

/// The servers that were used, by registration.
#[derive(Debug, Clone, Default)]
pub(super) struct Upstreams(Arc<Mutex<HashMap<Registration, Arc<Entry>>>>);

/// Identifies a registration: sandbox, name and time. A name that is registered again is another server.
type Registration = (SandboxId, String, i64);

/// A server that was used.
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

    /// Ends the servers of a name that is not registered any more.
    pub(super) async fn end(&self, sandbox: &SandboxId, name: &str) {
        let ended: Vec<_> = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.extract_if(|(of, other, _), _| of == sandbox && other == name).collect()
        };
        for (_, entry) in ended {
            entry.server.stop().await;
        }
    }

    /// Ends all servers when the daemon stops.
    pub(super) fn stop_at(&self, shutdown: CancellationToken) {
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
