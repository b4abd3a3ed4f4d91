//! Checkpoints: automatic snapshots of sandboxd.

use sandbox_api::sandbox::{CreateSandbox, WorkspaceSource};
use sandbox_api::snapshot::RestoreSnapshot;
use sandbox_client::Client;

use super::{Docker, fault, id};
use crate::chat_key::ChatKey;
use crate::provider::{CheckpointId, Error, Result, SandboxId};

impl Docker {
    pub(super) async fn latest_checkpoint(&self, sandbox: &SandboxId) -> Result<Option<CheckpointId>> {
        if self.options.checkpoints.is_none() {
            return Ok(None);
        }
        Ok(self.get(sandbox).await?.checkpoint_id)
    }

    pub(super) async fn restore_checkpoint(
        &self,
        sandbox: &SandboxId,
        checkpoint: &CheckpointId,
    ) -> Result<()> {
        let request = &RestoreSnapshot { snapshot_id: checkpoint.clone(), force: None };
        let id = &id(sandbox)?;
        let restore = |client: Client| async move { client.restore_snapshot(id, request).await };
        self.subjects.call(sandbox.subject(), restore).await.map(drop).map_err(fault)
    }

    pub(super) async fn create_from(&self, key: &ChatKey, checkpoint: &CheckpointId) -> Result<SandboxId> {
        let workspace = Some(WorkspaceSource::snapshot(checkpoint.clone()));
        let request = CreateSandbox { workspace, ..self.create_request(key) };
        let made = self.create(key, &request).await?;
        if !made.is_new {
            return Err(Error::Refused { message: format!("{} already has a sandbox", key.as_str()) });
        }
        self.add_own_hosts(&made).await?;
        Ok(made.sandbox)
    }
}
