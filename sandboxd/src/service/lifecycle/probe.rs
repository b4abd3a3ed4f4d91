//! Which transport reaches the agents, found out with a real sandbox.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tracing::{info, warn};

use super::container::Workspace;
use super::prepare::Prepared;
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

    /// Tries a real sandbox: that its agent answers proves the image, the agent, the settings and the way
    /// between us, all of which would otherwise fail at the first user's first command.
    async fn choose_transport(self: &Arc<Self>, image: &str, agent_volume: &str) -> Result<Transport, Error> {
        let try_with = |transport| {
            let prepared =
                Prepared { image: image.to_owned(), agent_volume: agent_volume.to_owned(), transport };
            // Tracked, so that a stop in the middle leaves nothing behind.
            let lifecycle = Arc::clone(self);
            self.tasks.run_detached(async move { lifecycle.try_sandbox(&prepared).await })
        };
        let forced = self.setup.transport;
        let first =
            forced.unwrap_or(if self.engine.is_local() { Transport::Socket } else { Transport::Engine });
        if first == Transport::Engine && !self.engine.shows_agent_pid() {
            // The trial decides, because not every such kernel is gVisor.
            warn!("the runtime may not tell the agent who calls it through the engine, as gVisor does not");
        }
        match try_with(first).await {
            Ok(()) => Ok(first),
            Err(error) if forced.is_none() && first == Transport::Socket => {
                warn!(
                    run_dir = %self.setup.run_dir.display(),
                    error = &error as &dyn std::error::Error,
                    "containers cannot reach the run dir; agents are reached through the engine, which is slower",
                );
                try_with(Transport::Engine).await?;
                Ok(Transport::Engine)
            }
            Err(error) => Err(error),
        }
    }

    async fn try_sandbox(&self, prepared: &Prepared) -> Result<(), Error> {
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
        // It is nobody's session, so it is in no registry and takes nobody's place.
        let id = SandboxId::random().map_err(|source| Error::Randomness { source })?;
        let record = new_record(id, UidSlot::LAST, prepared.transport, spec);
        let (sandbox, _guard) = Sandbox::new(record);
        let answered = match self.bring_up(&sandbox, prepared, Workspace::New).await {
            Ok(agent) => agent.info().await.map_err(Error::from),
            Err(error) => Err(error),
        };
        self.take_down(&sandbox).await?;
        info!(resident_kib = answered?.resident_bytes / 1024, "an agent answers");
        Ok(())
    }
}
