//! Chooses the transport to agents by starting a real sandbox.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tracing::{info, warn};

use super::container::Workspace;
use super::readiness::Prepared;
use super::sandbox::{Sandbox, new_record};
use super::{Error, Lifecycle};
use crate::model::{FieldError, Resources, SandboxSpec, Transport, UidSlot};

impl Lifecycle {
    pub(super) async fn chosen_transport(
        self: &Arc<Self>,
        chosen: Option<Transport>,
        image: &str,
        agent_volume: &str,
    ) -> Result<Transport, Error> {
        match chosen {
            Some(transport) => Ok(transport),
            None => self.choose_transport(image, agent_volume).await,
        }
    }

    /// The transport that is tried first: the one that the operator has set, or the faster one.
    pub(super) fn first_transport(&self) -> Transport {
        let faster = if self.engine.is_local() { Transport::Socket } else { Transport::Engine };
        self.setup.transport.unwrap_or(faster)
    }

    /// Starts a real sandbox. If its agent answers, the image, the agent, the settings and the transport work.
    /// Otherwise the first user's first command would fail.
    async fn choose_transport(self: &Arc<Self>, image: &str, agent_volume: &str) -> Result<Transport, Error> {
        let probe_with = |transport| {
            let prepared =
                Prepared { image: image.to_owned(), agent_volume: agent_volume.to_owned(), transport };
            // Tracked, so that a stop of the daemon leaves nothing behind.
            let lifecycle = Arc::clone(self);
            self.tasks.run_detached(async move { lifecycle.probe(&prepared).await })
        };
        let forced = self.setup.transport;
        let first = self.first_transport();
        if first == Transport::Engine && !self.engine.shows_agent_pid() {
            // Only a warning, because not every such kernel is gVisor. The probe decides.
            warn!(
                "the runtime may not show the agent which process calls it through the engine, like gVisor"
            );
        }
        match probe_with(first).await {
            Ok(()) => Ok(first),
            Err(error) if forced.is_none() && first == Transport::Socket => {
                warn!(
                    run_dir = %self.setup.run_dir.display(),
                    error = &error as &dyn std::error::Error,
                    "containers cannot reach the run dir; agents are reached through the engine, which is slower",
                );
                probe_with(Transport::Engine).await?;
                Ok(Transport::Engine)
            }
            Err(error) => Err(error),
        }
    }

    async fn probe(&self, prepared: &Prepared) -> Result<(), Error> {
        let small = sandbox_api::sandbox::Resources {
            vcpus: Some(1),
            memory_mb: Some(256),
            pids: Some(16),
            disk_mb: None,
        };
        let spec = SandboxSpec {
            resources: Resources::new(small)?,
            ..SandboxSpec::new("sandboxd:start-up".parse().map_err(FieldError::from)?)
        };
        // It belongs to no session. So it is not in the registry and uses neither a permit nor a sandbox's user id.
        let id = SandboxId::random().map_err(|source| Error::Randomness { source })?;
        let record = new_record(id, UidSlot::LAST, prepared.transport, spec);
        let (sandbox, _guard) = Sandbox::new(record);
        let answered = match self.bring_up(&sandbox, prepared, Workspace::New).await {
            Ok(agent) => agent.info().await.map_err(Error::from),
            Err(error) => Err(error),
        };
        self.tear_down(&sandbox).await?;
        info!(resident_kib = answered?.resident_bytes / 1024, "the agent of a probe sandbox answers");
        Ok(())
    }
}
