//! Sandboxes of the original daemon, which sandboxd replaces. They are logged, or adopted if the operator enables it.

use std::sync::Arc;

use tracing::{info, warn};

use super::order::State;
use super::readiness::Prepared;
use super::registry::Claim;
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::engine::{ContainerPlan, Original};
use crate::model::{SandboxSpec, Stage};

impl Lifecycle {
    /// Logs the containers of the original daemon. If the operator enables it, adopts the files of their sessions. A
    /// container that cannot be adopted is logged and left as it was.
    pub(in crate::service) async fn adopt_originals(
        self: &Arc<Self>,
        prepared: &Prepared,
    ) -> Result<(), Error> {
        for original in self.engine.originals().await? {
            if !self.setup.adopt_original {
                info!(
                    sandbox = original.sandbox_id,
                    container = original.container_id,
                    "container of the original daemon left as it is; SANDBOXD_ADOPT_ORIGINAL=1 adopts it",
                );
                continue;
            }
            if let Err(error) = self.adopt_original(&original, prepared).await {
                warn!(
                    sandbox = original.sandbox_id,
                    error = &error as &dyn std::error::Error,
                    "could not adopt a sandbox of the original daemon",
                );
            }
        }
        Ok(())
    }

    async fn adopt_original(self: &Arc<Self>, original: &Original, prepared: &Prepared) -> Result<(), Error> {
        let Some(spec) = original.spec.clone() else {
            return Ok(self.engine.remove_original(original).await?);
        };
        // The original's labels do not include an idle time.
        let spec = SandboxSpec { idle_ttl: self.setup.limits.default_idle_ttl, ..spec };
        if let Some(sandbox) = self.adopt_files(original, spec, prepared).await? {
            info!(sandbox = %sandbox.id(), original = original.sandbox_id, "sandbox of the original daemon adopted");
            self.engine.remove_original(original).await?;
        }
        Ok(())
    }

    /// Creates a parked sandbox with the original's files. Returns `None` if the session already has a sandbox, whose
    /// files are newer than those of the original.
    async fn adopt_files(
        self: &Arc<Self>,
        original: &Original,
        spec: SandboxSpec,
        prepared: &Prepared,
    ) -> Result<Option<Arc<Sandbox>>, Error> {
        let charge =
            |spec: &SandboxSpec, _| Ok(self.quotas.existing_sandbox(&spec.owner.project, spec.resources));
        let Claim::New(sandbox, mut state) =
            self.registry.claim(spec, prepared.transport, charge, |_| None)?
        else {
            warn!(
                original = original.sandbox_id,
                "container of the original daemon left as it is: its session already has a sandbox"
            );
            return Ok(None);
        };
        let copied = async {
            self.claim_disk(&sandbox, None).await?;
            self.store.begin(&sandbox.record()).await?;
            let attached = self.storage.attach(&sandbox.labels()).await?;
            // The container only serves to copy the files. It is never started, so its agent needs no socket.
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
                *state = State::Deleting;
                self.undo_create(&sandbox).await?;
                Err(error)
            }
        }
    }
}
