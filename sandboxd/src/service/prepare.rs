//! What must be there before the first request: image, agent, a way to reach agents, the sandboxes of before.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tracing::{info, warn};

use super::registry::Sandbox;
use super::{Error, Service};
use crate::engine::{self, SandboxLabels};
use crate::model::{Resources, SandboxSpec, SessionKey, Transport, UidSlot};

/// Whether requests can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Not yet.
    Waiting {
        /// For what.
        missing: &'static str,
    },
    /// Yes.
    Ready,
}

/// What start-up found or made.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) image: String,
    pub(super) agent_volume: String,
    pub(super) transport: Transport,
}

impl Service {
    /// Whether requests can be served.
    pub fn readiness(&self) -> Readiness {
        *self.readiness.borrow()
    }

    pub(super) fn prepared(&self) -> Result<&Prepared, Error> {
        match (self.prepared.get(), self.readiness()) {
            (Some(prepared), Readiness::Ready) => Ok(prepared),
            (_, Readiness::Waiting { missing }) => Err(Error::NotReady { missing }),
            (None, Readiness::Ready) => Err(Error::NotReady { missing: "start-up" }),
        }
    }

    /// Prepares everything, in order. An error means that the daemon cannot do its work here.
    pub async fn prepare(self: &Arc<Self>) -> Result<(), Error> {
        let image = self.setup.image.clone();
        self.wait_for("image");
        self.ensure_image().await?;
        self.wait_for("agent");
        let agent_volume = self.engine.ensure_agent_volume(&self.setup.agent_program, &image).await?;
        self.wait_for("transport");
        let transport = self.choose_transport(&image, &agent_volume).await?;
        self.wait_for("sandboxes of before");
        self.adopt().await?;
        let prepared = Prepared { image, agent_volume, transport };
        info!(image = prepared.image, transport = transport.as_str(), "ready");
        // Set once, because start-up runs once.
        let _ = self.prepared.set(prepared);
        self.readiness.send_replace(Readiness::Ready);
        Ok(())
    }

    fn wait_for(&self, missing: &'static str) {
        self.readiness.send_replace(Readiness::Waiting { missing });
    }

    async fn ensure_image(&self) -> Result<(), Error> {
        let image = &self.setup.image;
        if self.engine.has_image(image).await? {
            return Ok(());
        }
        match &self.setup.image_source {
            Some(source) => Ok(self.engine.build_image(image, source).await?),
            None => Err(engine::Error::ImageMissing { image: image.clone() }.into()),
        }
    }

    /// Tries a real sandbox: that its agent answers proves the image, the agent, the settings and the way
    /// between us, all of which would otherwise fail at the first user's first command.
    async fn choose_transport(self: &Arc<Self>, image: &str, agent_volume: &str) -> Result<Transport, Error> {
        let try_with = |transport| {
            let prepared =
                Prepared { image: image.to_owned(), agent_volume: agent_volume.to_owned(), transport };
            // Tracked, so that a stop in the middle leaves nothing behind.
            let service = Arc::clone(self);
            let trial = self.tasks.spawn(async move { service.try_sandbox(&prepared).await });
            async move { trial.await.map_err(|source| Error::Task { source })? }
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
            ..SandboxSpec::new(SessionKey::parse("sandboxd:start-up", "sessionKey")?)
        };
        // It is nobody's session, so it is in no registry and takes nobody's place.
        let id = SandboxId::random().map_err(|source| Error::Randomness { source })?;
        let labels =
            SandboxLabels { id, slot: UidSlot::LAST, transport: prepared.transport, disk: None, spec };
        let (sandbox, guard) = Sandbox::to_be_made(labels);
        let agent = self.bring_up(&sandbox, prepared).await?;
        let answered = agent.info().await;
        drop((agent, guard));
        self.take_down(&sandbox).await?;
        let (resident_bytes, _) = answered?;
        info!(resident_kib = resident_bytes / 1024, "an agent answers");
        Ok(())
    }
}
