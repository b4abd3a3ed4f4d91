//! The disks of workspaces: which sandbox has which, and what they take.

use sandbox_api::SandboxId;

use super::registry::Sandbox;
use super::{Error, Service};
use crate::agent::AgentHandle;
use crate::model::Disk;

/// A disk that can be mounted, until it is released.
pub(super) struct AttachedDisk(Option<()>);

impl AttachedDisk {
    /// It is mounted now, or will not be.
    pub(super) async fn release(self) {
        drop(self.0);
    }
}

impl Service {
    /// Gives a new sandbox its disk.
    pub(super) async fn claim_disk(&self, _sandbox: &Sandbox) -> Result<(), Error> {
        Ok(())
    }

    /// Makes a sandbox's disk mountable.
    pub(super) async fn attach(&self, _sandbox: &Sandbox) -> Result<AttachedDisk, Error> {
        Ok(AttachedDisk(None))
    }

    pub(super) fn device_of(&self, _disk: Option<&Disk>) -> Option<String> {
        None
    }

    /// Removes a sandbox's disk; done as well where it has none.
    pub(super) async fn give_up_disk(&self, _sandbox: &Sandbox) -> Result<(), Error> {
        Ok(())
    }

    /// Whether the files of a parked sandbox are still there.
    pub(super) async fn has_workspace(&self, sandbox: &Sandbox) -> Result<bool, Error> {
        let id: &SandboxId = sandbox.id();
        Ok(self.engine.has_volume(id).await?)
    }

    /// What a workspace takes, where that can be told.
    pub(super) async fn disk_bytes_of(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Option<u64> {
        sandbox.facts().record.disk.as_ref()?;
        agent.info().await.ok().map(|info| info.disk_used_bytes)
    }

    /// What all workspaces take together.
    pub(super) async fn disk_bytes_of_all(&self) -> Result<u64, Error> {
        Ok(self.registry.all().iter().filter_map(|sandbox| sandbox.facts().record.disk_bytes).sum())
    }

    /// Removes disks that no sandbox has.
    pub(super) async fn sweep_disks(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Why workspaces have no quota here.
    pub(super) fn no_quota_reason(&self) -> String {
        "disk quota".to_owned()
    }
}
