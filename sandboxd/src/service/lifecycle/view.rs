//! What is told of a sandbox.

use std::sync::Arc;
use std::time::Duration;

use sandbox_api::SandboxId;
use tokio::time::timeout;

use super::order::{Running, State};
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::agent::{AgentHandle, AgentInfo};
use crate::engine::{NO_NETWORK, Posture, Usage};
use crate::model::{Refusal, Resource, SandboxRecord, SessionKey, Stage, limits};
use crate::service::clock::now_ms;

/// What an open sandbox reaches that no other one does, and nobody counts.
const NOT_BLOCKED: [&str; 4] = [
    "network: it is open, and no policy, list or bound holds",
    "network: this machine, the local network and metadata services may be reached",
    "network: every protocol and port may be used, DNS and UDP too",
    "network: what it listens on beyond its loopback may be reached from this machine",
];

/// A sandbox at one moment.
#[derive(Debug, Clone)]
pub struct SandboxView {
    /// What it is made from and what is being done with it.
    pub record: SandboxRecord,
    /// Tag of its image.
    pub image: String,
    /// Its hardening, as of when its container was last started or found.
    pub posture: Option<Posture>,
    /// What this host cannot hold it to.
    pub unenforced: Vec<String>,
    /// Milliseconds since the Unix epoch when it is parked or deleted if nobody uses it until then.
    pub expires_at_ms: Option<i64>,
    /// Commands under way, as far as this daemon was told of them.
    pub running_commands: u32,
    /// What it takes now, if that was asked for and it runs.
    pub usage: Option<SandboxUsage>,
}

/// What a sandbox takes.
#[derive(Debug, Clone, Copy)]
pub struct SandboxUsage {
    /// By its container.
    pub container: Usage,
    /// By its workspace, where that is a file system of its own.
    pub disk_bytes: Option<u64>,
}

/// Which sandboxes to list.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only that of this session.
    pub session_key: Option<SessionKey>,
    /// Only those for which this holds.
    pub stages: Option<Vec<Stage>>,
    /// Those after this one.
    pub after: Option<SandboxId>,
    /// At most so many.
    pub limit: usize,
}

impl Lifecycle {
    /// The sandboxes of a selection in order of their ids, and whether there are more.
    pub fn list(&self, selection: &Selection) -> Result<(Vec<SandboxView>, bool), Error> {
        self.prepared()?;
        let after = |sandbox: &Arc<Sandbox>| selection.after.as_ref().is_none_or(|id| sandbox.id() > id);
        let mut found = self.registry.all().into_iter().filter(after).filter(|sandbox| {
            sandbox.look(|facts| {
                let record = &facts.record;
                selection.session_key.as_ref().is_none_or(|key| *key == record.spec.session_key)
                    && selection.stages.as_ref().is_none_or(|stages| stages.contains(&record.stage))
            })
        });
        let page = found.by_ref().take(selection.limit).map(|sandbox| self.view(&sandbox, None)).collect();
        Ok((page, found.next().is_some()))
    }

    /// A sandbox with what it takes now. Neither wakes it nor counts as use.
    pub async fn get(&self, id: &SandboxId) -> Result<SandboxView, Error> {
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
        // What cannot be told now is not told; the rest of the answer is as good without.
        let container = async { timeout(limits::USAGE, self.engine.usage(id)).await.ok()?.ok()? };
        let (container, info) = tokio::join!(container, info_of(&agent));
        let own_disk = sandbox.look(|facts| facts.record.disk.is_some());
        let disk_bytes = info.as_ref().map(|info| info.disk_used_bytes).filter(|_| own_disk);
        let usage = container.map(|container| SandboxUsage { container, disk_bytes });
        let mut view = self.view(&sandbox, usage);
        if let Some(info) = info {
            view.running_commands = info.running_commands;
        }
        Ok(view)
    }

    fn view(&self, sandbox: &Sandbox, usage: Option<SandboxUsage>) -> SandboxView {
        let posture = sandbox.look(|facts| facts.posture.clone());
        let record = sandbox.record();
        SandboxView {
            image: record.spec.image.clone().unwrap_or_else(|| self.setup.image.clone()),
            unenforced: self.unenforced(&record, posture.as_ref()),
            expires_at_ms: self.expires_in(sandbox, &record).map(|left| now_ms() + left.as_millis() as i64),
            running_commands: sandbox.activity().commands() as u32,
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

    /// What a sandbox is promised and this host does not hold it to.
    fn unenforced(&self, record: &SandboxRecord, posture: Option<&Posture>) -> Vec<String> {
        let mut unenforced: Vec<String> = self.weaknesses.get().cloned().unwrap_or_default();
        if record.disk.is_none() {
            unenforced.push(self.storage.no_quota_reason());
        }
        if record.disk.is_some() && self.storage.is_space_short() {
            unenforced.push("disk space: the engine's disk is nearly full, so writes are refused".into());
        }
        let Some(posture) = posture else { return unenforced };
        let limits = [
            ("pids limit", posture.pids_limit.is_some()),
            ("memory limit", posture.memory_bytes.is_some()),
            ("no swap", posture.swap_bytes == Some(0)),
            ("cpu limit", posture.nano_cpus.is_some()),
        ];
        unenforced.extend(limits.into_iter().filter(|(_, held)| !held).map(|(name, _)| name.to_owned()));
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

/// What an agent tells of its sandbox. One that has not dialled yet, or again, is not waited for.
pub(super) async fn info_of(agent: &AgentHandle) -> Option<AgentInfo> {
    let agent = Some(agent).filter(|agent| agent.is_connected())?;
    timeout(limits::USAGE, agent.info()).await.ok()?.ok()
}
