//! Checkpoints: automatic snapshots of sandboxd.

use sandbox_api::sandbox::{CreateSandbox, WorkspaceSource};
use sandbox_api::snapshot::RestoreSnapshot;

use super::{Docker, fault, id};
use crate::chat_key::ChatKey;
use crate::provider::{CheckpointId, Error, Result, SandboxId};

impl Docker {
    pub(super) async fn latest_checkpoint(&self, sandbox: &SandboxId) -> Result<Option<CheckpointId>> {
        if self.options.checkpoints.is_none() {
            return Ok(None);
        }
        Ok(self.client.get(&id(sandbox)?).await.map_err(fault)?.checkpoint_id)
    }

    pub(super) async fn restore_checkpoint(
        &self,
        sandbox: &SandboxId,
        checkpoint: &CheckpointId,
    ) -> Result<()> {
        let request = RestoreSnapshot { snapshot_id: checkpoint.clone(), force: None };
        self.client.restore_snapshot(&id(sandbox)?, &request).await.map(drop).map_err(fault)
    }

    pub(super) async fn create_from(&self, key: &ChatKey, checkpoint: &CheckpointId) -> Result<SandboxId> {
        let workspace = Some(WorkspaceSource { snapshot_id: checkpoint.clone() });
        let request = CreateSandbox { workspace, ..self.create_request(key) };
        let made = self.client.create_or_reconnect(&request).await.map_err(fault)?;
        if !made.created {
            return Err(Error::Refused { message: format!("{} already has a sandbox", key.as_str()) });
        }
        if !self.options.network.allow.is_empty() {
            self.add_hosts(&made.sandbox_id, &self.options.network.allow).await?;
        }
        Ok(made.sandbox_id.as_str().to_owned().into())
    }
}
