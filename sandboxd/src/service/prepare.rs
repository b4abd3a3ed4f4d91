//! What must be there before the first request: image, agent, a way to reach agents, the sandboxes of before.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tokio::time::sleep;
use tracing::{info, warn};

use super::disk::Workspace;
use super::registry::{Sandbox, new_record};
use super::{Error, Service};
use crate::egress::CaBundle;
use crate::engine;
use crate::model::layout::DEFAULT_IMAGE;
use crate::model::{Resources, SandboxSpec, SessionKey, Transport, UidSlot, limits};

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

/// What a start that is tried again need not do twice.
#[derive(Debug, Default)]
struct Done {
    transport: Option<Transport>,
    restored: bool,
    linked: bool,
}

impl Service {
    /// Whether requests can be served.
    pub fn readiness(&self) -> Readiness {
        *self.readiness.borrow()
    }

    pub(super) fn prepared(&self) -> Result<&Prepared, Error> {
        match (self.prepared.get(), self.readiness()) {
            (Some(prepared), Readiness::Ready) => self.check_engine().map(|()| prepared),
            (_, Readiness::Waiting { missing }) => Err(Error::NotReady { missing }),
            (None, Readiness::Ready) => Err(Error::NotReady { missing: "start-up" }),
        }
    }

    /// Prepares everything, in order. What may pass, such as an engine that is away, is waited for; the daemon
    /// answers health meanwhile. An error means that the daemon cannot do its work here.
    pub async fn prepare(self: &Arc<Self>) -> Result<(), Error> {
        let mut done = Done::default();
        let mut pause = *limits::START_RETRY.start();
        loop {
            match self.prepare_once(&mut done).await {
                Err(error) if error.may_pass() => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        advice = error.advice(),
                        retry_in = ?pause,
                        "the start is incomplete; trying again"
                    );
                }
                other => return other,
            }
            sleep(pause).await;
            pause = (pause * 2).min(*limits::START_RETRY.end());
        }
    }

    async fn prepare_once(self: &Arc<Self>, done: &mut Done) -> Result<(), Error> {
        self.wait_for("engine");
        self.engine.meet().await?;
        self.settle_engine().await?;
        self.wait_for("image");
        let image = self.setup.image.clone();
        self.ensure_image().await?;
        self.wait_for("agent");
        let agent_volume = {
            let ca_bundle = self.setup.egress.ca_bundle.as_ref().map(CaBundle::pem);
            self.engine.ensure_agent_volume(&self.setup.agent_program, ca_bundle, &image).await?
        };
        self.wait_for("transport");
        let (transport, ()) = tokio::try_join!(
            self.chosen_transport(done.transport, &image, &agent_volume),
            self.ensure_quota(&image, &agent_volume)
        )?;
        done.transport = Some(transport);
        // Shown with each sandbox; a host that cannot be judged is no reason not to serve.
        let mut weaknesses = self.engine.facts().await.map(|facts| facts.warnings()).unwrap_or_default();
        weaknesses.extend(self.engine.runtime_weaknesses().into_iter().map(str::to_owned));
        let _ = self.weaknesses.set(weaknesses);
        self.wait_for("sandboxes of before");
        if !done.restored {
            self.take_back_all().await?;
            done.restored = true;
        }
        if !done.linked {
            self.take_links().await?;
            done.linked = true;
        }
        let service = Arc::clone(self);
        self.not_for_long(async move {
            if let Err(error) = service.take_publishers().await {
                warn!(error = &error as &dyn std::error::Error, "could not take back published ports");
            }
        })
        .await;
        self.make_disks_ahead().await?;
        let prepared = Prepared { image, agent_volume, transport };
        self.meet_originals(&prepared).await?;
        info!(image = prepared.image, transport = transport.as_str(), "ready");
        let _ = self.prepared.set(prepared);
        self.readiness.send_replace(Readiness::Ready);
        Ok(())
    }

    async fn chosen_transport(
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

    async fn ensure_quota(&self, image: &str, agent_volume: &str) -> Result<(), Error> {
        if self.quota.get().is_none() {
            let quota = self.open_quota(image, agent_volume).await?;
            let _ = self.quota.set(quota);
        }
        Ok(())
    }

    fn wait_for(&self, missing: &'static str) {
        self.readiness.send_replace(Readiness::Waiting { missing });
    }

    async fn ensure_image(&self) -> Result<(), Error> {
        let image = &self.setup.image;
        if self.engine.has_image(image).await? {
            self.warn_of_an_old_image(image).await;
            return Ok(());
        }
        match &self.setup.image_source {
            Some(source) => Ok(self.engine.build_image(image, source).await?),
            None => Err(engine::Error::ImageMissing { image: image.clone() }.into()),
        }
    }

    /// An image of an earlier version lacks what this version's documents promise. Building takes minutes, so it is not done here.
    async fn warn_of_an_old_image(&self, image: &str) {
        let Some(source) = self.setup.image_source.as_ref().filter(|_| image == DEFAULT_IMAGE) else {
            return;
        };
        if let Ok(false) = self.engine.is_built_from(image, source).await {
            warn!(
                image,
                "the sandbox image was built from another Dockerfile; `sandboxd build-image` builds it anew"
            );
        }
    }

    /// Makes sure of the image a sandbox asks for, which the operator has allowed.
    pub(super) async fn ensure_image_of(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let Some(image) = sandbox.labels().spec.image else {
            return Ok(());
        };
        if self.engine.has_image(&image).await? {
            return Ok(());
        }
        self.engine.pull(&image).await.map_err(|source| Error::ImageUnavailable { image, source })
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
        let record = new_record(id, UidSlot::LAST, prepared.transport, spec);
        let (sandbox, _guard) = Sandbox::to_be_made(record);
        let answered = match self.bring_up(&sandbox, prepared, Workspace::New).await {
            Ok(agent) => agent.info().await.map_err(Error::from),
            Err(error) => Err(error),
        };
        self.take_down(&sandbox).await?;
        info!(resident_kib = answered?.resident_bytes / 1024, "an agent answers");
        Ok(())
    }
}
