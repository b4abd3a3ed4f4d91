//! Finds or creates what requests need, at the start: the image, the agent's volume, and the transport to agents.

use std::sync::Arc;

use tracing::{debug, info, warn};

use super::readiness::{Prepared, Readiness};
use super::sandbox::Sandbox;
use super::start_record::Findings;
use super::{Error, Lifecycle};
use crate::engine;
use crate::model::layout::DEFAULT_IMAGE;
use crate::model::{CaBundle, Transport};
use crate::service::SpecError;

impl Lifecycle {
    /// Whether requests can be served.
    pub fn readiness(&self) -> Readiness {
        *self.readiness.borrow()
    }

    pub(in crate::service) fn prepared(&self) -> Result<&Prepared, Error> {
        match (self.prepared.get(), self.readiness()) {
            (Some(prepared), Readiness::Ready) => self.ownership.check().map(|()| prepared),
            (_, Readiness::Waiting { missing }) => Err(Error::NotReady { missing }),
            (None, Readiness::Ready) => Err(Error::NotReady { missing: "start-up" }),
        }
    }

    /// Resolves when requests can be served.
    pub(in crate::service) async fn until_ready(&self) {
        let mut readiness = self.readiness.subscribe();
        // The sender is this component's own, so it cannot be gone.
        let _ = readiness.wait_for(|readiness| *readiness == Readiness::Ready).await;
    }

    /// Finds or creates what containers need. A retried start passes the transport that it chose before.
    pub(in crate::service) async fn prepare(
        self: &Arc<Self>,
        chosen: &mut Option<Transport>,
    ) -> Result<Prepared, Error> {
        self.set_waiting_for("image");
        let image = self.setup.image.clone();
        self.ensure_image().await?;
        // Shown with each sandbox. If the engine cannot report its facts, sandboxes are served without them.
        let facts = self.engine.facts().await.ok();
        if let Some(facts) = facts.as_ref().filter(|_| self.engine.is_local()) {
            let image_id = self.engine.image_id(&image).await?;
            self.start_record.name(&self.setup, facts, self.engine.host()?, &image_id);
        }
        let mut weaknesses = facts.map(|facts| facts.warnings()).unwrap_or_default();
        weaknesses.extend(self.engine.runtime_weaknesses().into_iter().map(str::to_owned));
        let _ = self.weaknesses.set(weaknesses);
        let findings = self.find_what_works(*chosen, &image).await?;
        *chosen = Some(findings.transport);
        Ok(Prepared { image, agent_volume: findings.agent_volume.name, transport: findings.transport })
    }

    /// Tries what sandboxes need, or takes what an earlier start has found.
    async fn find_what_works(
        self: &Arc<Self>,
        chosen: Option<Transport>,
        image: &str,
    ) -> Result<Findings, Error> {
        self.set_waiting_for("agent");
        if let Some(findings) = self.start_record.read()
            && self.engine.has_agent_volume(&findings.agent_volume).await?
        {
            debug!("an earlier start has found what works here");
            self.set_waiting_for("transport");
            self.storage.prepare(image, &findings.agent_volume.name, findings.disks).await?;
            return Ok(Findings { transport: chosen.unwrap_or(findings.transport), ..findings });
        }
        let agent_volume = {
            let ca_bundle = self.setup.egress.ca_bundle.as_ref().map(CaBundle::pem);
            self.engine.ensure_agent_volume(&self.setup.agent_program, ca_bundle, image).await?
        };
        self.set_waiting_for("transport");
        let (transport, ()) = tokio::try_join!(
            self.chosen_transport(chosen, image, &agent_volume.name),
            self.storage.prepare(image, &agent_volume.name, None)
        )?;
        let findings = Findings { agent_volume, transport, disks: self.storage.proof() };
        // What does not work is tried again at each start.
        let works = self.storage.has_wanted_quota() && transport == self.first_transport();
        if works {
            self.start_record.write(&findings);
        }
        Ok(findings)
    }

    /// Marks the start as complete. Requests are served from now on.
    pub(in crate::service) fn set_ready(&self, prepared: Prepared) {
        info!(image = prepared.image, transport = prepared.transport.as_str(), "ready");
        let _ = self.prepared.set(prepared);
        self.readiness.send_replace(Readiness::Ready);
    }

    /// Reports that requests are not served yet, because the step `missing` is not complete.
    pub(in crate::service) fn set_waiting_for(&self, missing: &'static str) {
        self.readiness.send_replace(Readiness::Waiting { missing });
    }

    async fn ensure_image(&self) -> Result<(), Error> {
        let image = &self.setup.image;
        if self.engine.has_image(image).await? {
            self.warn_if_image_is_outdated(image).await;
            return Ok(());
        }
        match &self.setup.image_source {
            Some(source) => Ok(self.engine.build_image(image, source).await?),
            None => Err(engine::Error::ImageMissing { image: image.clone() }.into()),
        }
    }

    /// Warns if the image is from an earlier version, because it lacks what this version's documentation promises.
    /// Building takes minutes, so the start does not do it.
    async fn warn_if_image_is_outdated(&self, image: &str) {
        let Some(source) = self.setup.image_source.as_ref().filter(|_| image == DEFAULT_IMAGE) else {
            return;
        };
        if let Ok(false) = self.engine.is_built_from(image, source).await {
            warn!(
                image,
                "the sandbox image was built from another Dockerfile; `sandboxd build-image` rebuilds it"
            );
        }
    }

    /// Ensures that the engine has the image that a sandbox requests. The operator has allowed it.
    pub(super) async fn ensure_requested_image(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let Some(image) = sandbox.labels().spec.image else {
            return Ok(());
        };
        if self.engine.has_image(&image).await? {
            return Ok(());
        }
        self.engine
            .pull(&image)
            .await
            .map_err(|source| Error::Spec(SpecError::ImageUnavailable { image, source }))
    }
}
