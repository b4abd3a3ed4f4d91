//! Resolves a set and unpacks its wheels, in a sandbox that is removed afterwards.
//!
//! The sandbox belongs to the owner of the request, so it counts like any other. But it is tentative: no client can use it, or
//! change the files that others get. If the daemon is killed, the next start removes it.
//!
//! Wheels are only unpacked. If a package has none, a second run in the same sandbox builds it from source code, which executes
//! code of the package. That code can change what the set has, as it can in each sandbox that imports it. It could also read
//! what else the index has, so nothing is built if the daemon has credentials for packages.

use std::sync::Arc;

use futures::FutureExt;
use sandbox_api::command::EndReason;
use sandbox_api::sandbox::Resources as WireResources;
use sandbox_api::{CommandId, SandboxId};
use tokio::time::timeout;
use tracing::{info, warn};

use super::{KeptSet, PackageError, Packages, Resolution, own};
use crate::agent::AgentHandle;
use crate::git::PackageRelay;
use crate::model::packages::{PackageSet, PackageSetKey, SANDBOX_KEYS};
use crate::model::{
    CommandSpec, FieldError, NetworkMode, NetworkPolicy, Owner, ProjectName, Refusal, Resource, Resources,
    SandboxSpec, SnapshotRecord, limits, sandbox,
};
use crate::seam;
use crate::service::Error;
use crate::service::clock::now_ms;
use crate::service::lifecycle::{Beginning, Changes, InUseMark, Sandbox};
use crate::service::run_to_end::{Output, run_to_end};

/// Resolves and unpacks. The variables are checked values.
const SCRIPT: &str = include_str!("install.sh");

/// Exit code of [`SCRIPT`] if uv finds no versions, or cannot build or unpack them.
const UNRESOLVED: i32 = 3;

/// What uv may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepted {
    Wheels,
    WheelsAndSources,
}

/// Copies of the files that a resolution needs space for: received, unpacked, and compiled.
const COPIES: u64 = 6;

const MIB: u64 = 1024 * 1024;

/// What is resolved, for whom.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) owner: Owner,
    /// As in the request. `None` is the daemon's image.
    pub(super) image: Option<String>,
    pub(super) set: PackageSet,
    pub(super) key: PackageSetKey,
}

impl Packages {
    /// The files of a set. They are resolved if none are kept, or if they are old.
    pub(super) async fn ready(self: &Arc<Self>, order: &Order) -> Result<KeptSet, Error> {
        let now = now_ms();
        let Some(kept) = self.kept.take(&order.key, now) else { return self.resolved(order).await };
        if !kept.is_old(now) {
            return Ok(kept);
        }
        match self.resolved(order).await {
            Ok(newer) => Ok(newer),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(key = %order.key, error, "could not resolve a set of packages again; using its old versions");
                Ok(kept)
            }
        }
    }

    /// Resolves a set. Requests of the same project for the same one wait for the same resolution, which continues if they
    /// leave.
    async fn resolved(self: &Arc<Self>, order: &Order) -> Result<KeptSet, Error> {
        let id = (order.owner.project.clone(), order.key.clone());
        let resolution = {
            let mut resolutions = self.resolutions();
            // It may have ended since the caller looked.
            let now = now_ms();
            if let Some(kept) = self.kept.take(&order.key, now).filter(|kept| !kept.is_old(now)) {
                return Ok(kept);
            }
            resolutions.entry(id.clone()).or_insert_with(|| self.begin(order, id)).clone()
        };
        resolution.await.map_err(Error::FetchFailed)
    }

    fn begin(self: &Arc<Self>, order: &Order, id: (ProjectName, PackageSetKey)) -> Resolution {
        let (packages, order) = (Arc::clone(self), order.clone());
        let task = self.tasks.spawn(async move {
            let resolved = packages.resolve(&order).await;
            // After it is kept, so that every request finds one or the other.
            packages.resolutions().remove(&id);
            resolved
        });
        let resolved = async move {
            match task.await {
                Ok(resolved) => resolved.map_err(Arc::new),
                Err(source) => Err(Arc::new(Error::Task { source })),
            }
        };
        resolved.boxed().shared()
    }

    async fn resolve(self: &Arc<Self>, order: &Order) -> Result<KeptSet, Error> {
        let turn = timeout(limits::RESOLUTION_TURN, self.turns.take(&order.owner.project)).await;
        let _turn = turn.map_err(|_| PackageError::Busy { max: limits::MAX_RESOLUTIONS })?;
        let helper = self.create_helper(order).await?;
        seam::at("packages.helper");
        // Until the snapshot is kept, it must not be removed as one that belongs to nothing.
        let recording = self.recording.read().await;
        let resolved = timeout(limits::RESOLUTION, self.resolve_in(&helper, order)).await;
        if let Err(error) = self.lifecycle.remove_tentative(&helper).await {
            let error = &error as &dyn std::error::Error;
            warn!(sandbox = %helper, error, "could not remove the sandbox of a resolution");
        }
        let record = resolved.map_err(|_| PackageError::TooSlow)??;
        seam::at("packages.snapshot");
        let set = KeptSet::of(&record).ok_or(PackageError::Failed)?;
        self.kept.add(set.clone(), now_ms());
        drop(recording);
        info!(key = %order.key, bytes = set.size_bytes, "resolved a set of packages");
        self.make_room(&set.key).await;
        Ok(set)
    }

    /// Creates the sandbox. It reaches nothing but the relay.
    async fn create_helper(&self, order: &Order) -> Result<SandboxId, Error> {
        let id = CommandId::random().map_err(|source| Error::Randomness { source })?;
        let session_key = format!("{SANDBOX_KEYS}{id}").parse().map_err(FieldError::from);
        let session_key = session_key.map_err(|error| Error::Refused(error.into()))?;
        let spec = SandboxSpec {
            owner: order.owner.clone(),
            image: order.image.clone(),
            network: NetworkPolicy { mode: NetworkMode::None, allow: Vec::new() },
            resources: with_disk(self.settings.max_fetched_bytes / MIB * COPIES)?,
            ..SandboxSpec::new(session_key)
        };
        let beginning = Beginning { seed: None, is_tentative: true };
        Ok(self.lifecycle.create_or_reconnect_with(spec, &Changes::default(), beginning).await?.id)
    }

    async fn resolve_in(&self, helper: &SandboxId, order: &Order) -> Result<SnapshotRecord, Error> {
        let sandbox = self.lifecycle.find(helper)?;
        // It must not be parked meanwhile.
        let _mark = InUseMark::request(sandbox.activity());
        let agent = sandbox.running_agent().await.ok_or(Refusal::NotFound(Resource::Sandbox))?;
        self.run_uv(&sandbox, &agent, order).await?;
        let names: Vec<&str> = order.set.requirements().iter().map(|one| one.name()).collect();
        let name = format!("{} {}", order.key, names.join(" "));
        let name = name.chars().take(limits::MAX_SNAPSHOT_NAME).collect();
        self.snapshots.make_for_daemon(&sandbox, &agent, own(), name).await
    }

    async fn run_uv(&self, sandbox: &Sandbox, agent: &AgentHandle, order: &Order) -> Result<(), Error> {
        let index = self.settings.index.clone();
        let relay = Arc::new(PackageRelay::new(self.client.clone(), index, self.settings.max_fetched_bytes));
        sandbox.outbound().set_package_relay(&relay);
        let resolved = run_script(agent, order, Accepted::Wheels, &relay).await;
        let may_build = relay.lacks_only_wheels() && !self.client.has_tokens();
        match resolved {
            Err(Error::Package(PackageError::NoWheel { .. })) if may_build => {
                run_script(agent, order, Accepted::WheelsAndSources, &relay).await
            }
            resolved => resolved,
        }
    }
}

async fn run_script(
    agent: &AgentHandle,
    order: &Order,
    accepted: Accepted,
    relay: &PackageRelay,
) -> Result<(), Error> {
    let id = CommandId::random().map_err(|source| Error::Randomness { source })?;
    let mut spec = CommandSpec::script(id, SCRIPT, limits::RESOLUTION_COMMAND);
    let builds = if accepted == Accepted::WheelsAndSources { "yes" } else { "" };
    let variables = [
        ("RELAY", PackageRelay::URL.to_owned()),
        ("KEY", order.key.to_string()),
        ("REQUIREMENTS", order.set.to_string()),
        ("BUILDS", builds.to_owned()),
    ];
    spec.env.extend(variables.map(|(name, value)| (name.to_owned(), value)));
    let Output { ended, stderr, .. } = run_to_end(agent, &spec, limits::MAX_RESOLUTION_LOG_BYTES).await?;
    if ended.exit_code == 0 {
        return Ok(());
    }
    if let Some(error) = relay.take_fault() {
        return Err(PackageError::of(error).into());
    }
    let message = String::from_utf8_lossy(&stderr);
    if ended.reason == EndReason::Timeout {
        return Err(PackageError::TooSlow.into());
    }
    if ended.exit_code != UNRESOLVED {
        warn!(exit_code = ended.exit_code, reason = ?ended.reason, %message, "uv could not unpack packages");
        return Err(PackageError::Failed.into());
    }
    Err(PackageError::unresolved(relay.lacks(), &message).into())
}

/// The default size, with a disk of at least so many MiB.
fn with_disk(disk_mb: u64) -> Result<Resources, Error> {
    let (first, last) = (u64::from(Resources::default().disk_mb()), *sandbox::DISK_MB.end());
    let wire = WireResources { disk_mb: Some(disk_mb.clamp(first, last)), ..WireResources::default() };
    Resources::new(wire).map_err(|error| Error::Refused(error.into()))
}
