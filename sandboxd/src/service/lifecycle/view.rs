//! Sandboxes as the API reports them.

use std::sync::Arc;
use std::time::Duration;

use sandbox_api::{SandboxId, SnapshotId};
use tokio::time::timeout;

use super::order::{Running, State};
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::agent::{AgentHandle, AgentInfo};
use crate::engine::NO_NETWORK;
use crate::model::{
    ContainerUsage, Owner, Posture, Refusal, Resource, SandboxRecord, SessionKey, Stage, limits,
};
use crate::service::Authorized;
use crate::service::clock::now_ms;

/// What an open sandbox can reach beyond every other sandbox, without policy and limits.
const NOT_BLOCKED: [&str; 4] = [
    "network: it is open; no policy, allowlist or limit applies",
    "network: it can reach this machine, the local network and metadata services",
    "network: it can use every protocol and port, including DNS and UDP",
    "network: this machine can reach the ports that it listens on outside of its loopback",
];

/// A sandbox at one moment.
#[derive(Debug, Clone)]
pub struct SandboxView {
    /// Its spec and its stage.
    pub record: SandboxRecord,
    /// Tag of its image.
    pub image: String,
    /// Its hardening, as of when its container was last started or inspected.
    pub posture: Option<Posture>,
    /// Limits and protections that this host cannot enforce for it.
    pub unenforced: Vec<String>,
    /// When it is parked or deleted unless it is used before, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<i64>,
    /// Number of running commands that this daemon knows.
    pub running_commands: u32,
    /// The snapshot after everything that has ended since the daemon started. It is made, or about to be made.
    pub checkpoint: Option<SnapshotId>,
    /// Whether it is parked and the remote store of snapshots does not have its last files yet.
    pub checkpoint_pending: bool,
    /// What it uses now, if that was requested and it runs.
    pub usage: Option<SandboxUsage>,
}

/// Resources that a sandbox uses.
#[derive(Debug, Clone, Copy)]
pub struct SandboxUsage {
    /// Of its container.
    pub container: ContainerUsage,
    /// Of its workspace. `None` if the workspace has no disk of its own.
    pub disk_bytes: Option<u64>,
}

/// Which sandboxes to list.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only sandboxes that this owner covers.
    pub owner: Owner,
    /// Only this sandbox.
    pub only: Option<SandboxId>,
    /// Only the sandbox of this session.
    pub session_key: Option<SessionKey>,
    /// Only sandboxes in one of these stages.
    pub stages: Option<Vec<Stage>>,
    /// Only sandboxes whose id is greater than this one.
    pub after: Option<SandboxId>,
    /// Maximum number of sandboxes.
    pub limit: usize,
}

impl Lifecycle {
    /// Returns the selected sandboxes in order of their ids, and whether there are more.
    pub fn list(&self, selection: &Selection) -> Result<(Vec<SandboxView>, bool), Error> {
        self.prepared()?;
        let after = |sandbox: &Arc<Sandbox>| selection.after.as_ref().is_none_or(|id| sandbox.id() > id);
        let mut found = self.registry.all().into_iter().filter(after).filter(|sandbox| {
            sandbox.with_facts(|facts| {
                let record = &facts.record;
                selection.owner.covers(&record.spec.owner)
                    && selection.only.as_ref().is_none_or(|only| only == sandbox.id())
                    && selection.session_key.as_ref().is_none_or(|key| *key == record.spec.session_key)
                    && selection.stages.as_ref().is_none_or(|stages| stages.contains(&record.stage))
            })
        });
        let page = found.by_ref().take(selection.limit).map(|sandbox| self.view(&sandbox, None)).collect();
        Ok((page, found.next().is_some()))
    }

    /// Returns a sandbox with the resources that it uses now. Does not wake it and does not count as use.
    pub async fn get(&self, id: &Authorized<SandboxId>) -> Result<SandboxView, Error> {
        let sandbox = self.find(id)?;
        let agent = match sandbox.order.try_shared().as_deref() {
            Some(State::Running(Running { agent, .. })) => Some(agent.clone()),
            Some(State::Deleted | State::Failed(_)) => {
                return Err(Refusal::NotFound(Resource::Sandbox).into());
            }
            _ => None,
        };
        let Some(agent) = agent else {
            return Ok(self.view(&sandbox, None));
        };
        // If the engine or the agent does not answer in time, the view lacks only the usage.
        let container = async { timeout(limits::USAGE, self.engine.usage(id)).await.ok()?.ok()? };
        let (container, info) = tokio::join!(container, agent_info(&agent));
        let own_disk = sandbox.with_facts(|facts| facts.record.disk.is_some());
        let disk_bytes = info.as_ref().map(|info| info.disk_used_bytes).filter(|_| own_disk);
        let usage = container.map(|container| SandboxUsage { container, disk_bytes });
        let mut view = self.view(&sandbox, usage);
        if let Some(info) = info {
            view.running_commands = info.running_commands;
        }
        Ok(view)
    }

    fn view(&self, sandbox: &Sandbox, usage: Option<SandboxUsage>) -> SandboxView {
        let posture = sandbox.with_facts(|facts| facts.posture.clone());
        let record = sandbox.record();
        SandboxView {
            image: record.spec.image.clone().unwrap_or_else(|| self.setup.image.clone()),
            unenforced: self.unenforced(&record, posture.as_ref()),
            expires_at_ms: self.expires_in(sandbox, &record).map(|left| now_ms() + left.as_millis() as i64),
            running_commands: sandbox.activity().commands() as u32,
            checkpoint: record.spec.checkpoints.and_then(|_| sandbox.checkpoints().latest()),
            checkpoint_pending: self.lacks_checkpoint(&record),
            posture,
            usage,
            record,
        }
    }

    fn expires_in(&self, sandbox: &Sandbox, record: &SandboxRecord) -> Option<Duration> {
        match record.stage {
            Stage::Running if !sandbox.activity().is_used() => {
                Some(record.spec.idle_ttl.saturating_sub(sandbox.activity().idle_for()))
            }
            Stage::Parked => {
                let parked_for = self.age.since(record.parked_at_age_ms?);
                Some(self.setup.limits.workspace_retention.saturating_sub(parked_for))
            }
            Stage::Running
            | Stage::Creating
            | Stage::Parking
            | Stage::Waking
            | Stage::Deleting
            | Stage::Lost => None,
        }
    }

    /// What the spec promises and this host does not enforce.
    fn unenforced(&self, record: &SandboxRecord, posture: Option<&Posture>) -> Vec<String> {
        let mut unenforced: Vec<String> = self.weaknesses.get().cloned().unwrap_or_default();
        if record.disk.is_none() {
            unenforced.push(self.storage.no_quota_reason());
        }
        if record.disk.is_some() && self.storage.is_space_short() {
            unenforced.push("disk space: the engine's disk is nearly full, so writes are rejected".into());
        }
        let Some(posture) = posture else { return unenforced };
        let limits = [
            ("pids limit", posture.pids_limit.is_some()),
            ("memory limit", posture.memory_bytes.is_some()),
            ("no swap", posture.swap_bytes == Some(0)),
            ("cpu limit", posture.nano_cpus.is_some()),
        ];
        unenforced
            .extend(limits.into_iter().filter(|(_, enforced)| !enforced).map(|(name, _)| name.to_owned()));
        if posture.network != NO_NETWORK {
            unenforced.extend(NOT_BLOCKED.map(str::to_owned));
        }
        let promised = i64::from(record.spec.resources.vcpus()) * 1_000_000_000;
        if posture.nano_cpus.is_some_and(|given| given < promised) {
            unenforced.push(format!("{} vcpus: the host has fewer", record.spec.resources.vcpus()));
        }
        unenforced
    }
}

/// Asks an agent about its sandbox. Returns `None` at once if the agent is not connected, and after [`limits::USAGE`]
/// if it does not answer.
pub(super) async fn agent_info(agent: &AgentHandle) -> Option<AgentInfo> {
    let agent = Some(agent).filter(|agent| agent.is_connected())?;
    timeout(limits::USAGE, agent.info()).await.ok()?.ok()
}
