//! Sandboxes of the original daemon: told of, and taken over where the operator says so.

use std::sync::Arc;

use tracing::{info, warn};

use super::order::State;
use super::prepare::Prepared;
use super::registry::Claim;
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::engine::{ContainerPlan, Original};
use crate::model::{SandboxSpec, Stage};

impl Lifecycle {
    /// Tells of what the original daemon left, and takes over the sessions' files if that is wished. What
    /// fails is left as it was and told of.
    pub(in crate::service) async fn meet_originals(
        self: &Arc<Self>,
        prepared: &Prepared,
    ) -> Result<(), Error> {
        for original in self.engine.originals().await? {
            if !self.setup.adopt_original {
                info!(
                    sandbox = original.sandbox_id,
                    container = original.container_id,
                    "left a container of the original daemon alone; SANDBOXD_ADOPT_ORIGINAL=1 takes it over",
                );
                continue;
            }
            if let Err(error) = self.take_over(&original, prepared).await {
                warn!(
                    sandbox = original.sandbox_id,
                    error = &error as &dyn std::error::Error,
                    "could not take over a sandbox of the original daemon",
                );
            }
        }
        Ok(())
    }

    async fn take_over(self: &Arc<Self>, original: &Original, prepared: &Prepared) -> Result<(), Error> {
        let Some(spec) = original.spec.clone() else {
            return Ok(self.engine.remove_original(original).await?);
        };
        // The original's labels tell no idle time.
        let spec = SandboxSpec { idle_ttl: self.setup.limits.default_idle_ttl, ..spec };
        if let Some(sandbox) = self.take_over_files(original, spec, prepared).await? {
            info!(sandbox = %sandbox.id(), original = original.sandbox_id, "took over a sandbox of the original daemon");
            self.engine.remove_original(original).await?;
        }
        Ok(())
    }

    /// A parked sandbox with the original's files; `None` where the session has one already, whose files are
    /// newer than what the original left.
    async fn take_over_files(
        self: &Arc<Self>,
        original: &Original,
        spec: SandboxSpec,
        prepared: &Prepared,
    ) -> Result<Option<Arc<Sandbox>>, Error> {
        let Claim::New(sandbox, mut state) = self.registry.claim(spec, prepared.transport)? else {
            warn!(
                original = original.sandbox_id,
                "left a container of the original daemon alone: its session has a sandbox"
            );
            return Ok(None);
        };
        let copied = async {
            self.claim_disk(&sandbox).await?;
            self.store.begin(&sandbox.record()).await?;
            let attached = self.storage.attach(&sandbox.labels()).await?;
            // It is never started, so no agent of it needs a socket.
            let plan = ContainerPlan { run_dir: None, ..self.plan_of(&sandbox, prepared) };
            let copied = self.engine.copy_original(original, &plan).await;
            let removed = self.engine.remove_container_of(sandbox.id()).await;
            attached.release().await?;
            copied.and(removed)?;
            let age = self.age.now_ms();
            let record = sandbox.update(|record| {
                record.stage = Stage::Parked;
                record.parked_at_age_ms = Some(age);
            });
            Ok(self.store.put(&record).await?)
        };
        match copied.await {
            Ok(()) => {
                *state = State::Parked;
                drop(state);
                Ok(Some(sandbox))
            }
            Err(error) => {
                *state = State::Stuck;
                self.undo(&sandbox).await?;
                Err(error)
            }
        }
    }
}
