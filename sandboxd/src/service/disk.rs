//! The disks of workspaces: which sandbox has which, and what they take.

use std::collections::HashSet;
use std::sync::{OnceLock, PoisonError};

use tracing::{info, warn};

use super::registry::{Facts, Sandbox};
use super::view::told_by;
use super::{Error, Service};
use crate::agent::AgentHandle;
use crate::engine::{Attached, DiskPool, Disks, VolumePresence};
use crate::model::{Disk, DiskQuota, Resources, limits};

/// Whether and how workspaces have a quota here.
#[derive(Debug)]
pub(super) enum Quota {
    /// Each has a file system of its own.
    Disks {
        /// All of them.
        disks: Disks,
        /// Those made ahead, from when those of before are swept.
        pool: OnceLock<DiskPool>,
    },
    /// None has.
    None {
        /// Why, for people.
        reason: String,
    },
}

/// Disks that nobody claims.
#[derive(Debug, Default)]
pub(super) struct Unclaimed {
    /// Never mounted, so nobody's files are in them.
    pub(super) unused: Vec<String>,
    /// They may have somebody's files.
    pub(super) used: Vec<String>,
}

/// A disk that can be mounted, until it is released. Of a sandbox without a disk, nothing.
pub(super) struct AttachedDisk(Option<Attached>);

impl AttachedDisk {
    /// It is mounted now, or will not be.
    pub(super) async fn release(self) -> Result<(), Error> {
        match self.0 {
            Some(attached) => Ok(attached.release().await?),
            None => Ok(()),
        }
    }
}

/// Whether a container is made for a new workspace or for one that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workspace {
    New,
    Kept,
}

impl Service {
    /// Finds out whether workspaces can have a quota here.
    pub(super) async fn open_quota(&self, image: &str, agent_volume: &str) -> Result<Quota, Error> {
        if self.setup.disk_quota == DiskQuota::Off {
            return Ok(Quota::None { reason: "disk quota: switched off".into() });
        }
        match self.engine.open_disks(image, agent_volume).await {
            Ok(disks) => Ok(Quota::Disks { disks, pool: OnceLock::new() }),
            // An engine that is away, or answers nonsense, says nothing about disks.
            Err(error) if error.says_nothing() || self.setup.disk_quota == DiskQuota::Required => {
                Err(error.into())
            }
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "workspaces have no quota: this engine cannot mount disks of our own",
                );
                Ok(Quota::None { reason: format!("disk quota: {error}") })
            }
        }
    }

    /// None where the engine is not ours to act on: a request would start a helper there, and end a newer daemon's.
    pub(super) fn disks(&self) -> Option<&Disks> {
        self.check_engine().ok()?;
        match self.quota.get() {
            Some(Quota::Disks { disks, .. }) => Some(disks),
            Some(Quota::None { .. }) | None => None,
        }
    }

    /// Gives a new sandbox its disk, where there are disks.
    pub(super) async fn claim_disk(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let Some(Quota::Disks { disks, pool }) = self.quota.get() else {
            return Ok(());
        };
        match self.measure_room().await? {
            Some(space) if space.free_bytes < limits::MIN_FREE_DISK_BYTES => {
                return Err(Error::DiskShort { free_bytes: space.free_bytes });
            }
            Some(_) | None => {}
        }
        let mib = sandbox.labels().spec.resources.disk_mb();
        let disk = match pool.get() {
            Some(pool) => pool.take(mib).await?,
            None => disks.make(mib).await?,
        };
        sandbox.update(|record| record.disk = Some(disk));
        Ok(())
    }

    /// Makes a sandbox's disk mountable.
    pub(super) async fn attach(&self, sandbox: &Sandbox) -> Result<AttachedDisk, Error> {
        let labels = sandbox.labels();
        let Some(disk) = labels.disk else {
            return Ok(AttachedDisk(None));
        };
        let disks = self.disks().ok_or(Error::NoDisks)?;
        Ok(AttachedDisk(Some(disks.attach(&disk, labels.slot).await?)))
    }

    pub(super) fn device_of(&self, disk: Option<&Disk>) -> Option<String> {
        Some(self.disks()?.device(disk?))
    }

    /// Removes a sandbox's disk; done as well where it has none.
    pub(super) async fn give_up_disk(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let Some(disk) = sandbox.labels().disk else {
            return Ok(());
        };
        let disks = self.disks().ok_or(Error::NoDisks)?;
        Ok(disks.remove(disk.name()).await?)
    }

    /// Whether the files of a sandbox are still there. With a disk of its own they are in that, and the engine makes a
    /// missing entry of its volume anew. A foreign volume of that name would be mounted in its place, so it counts as missing.
    pub(super) async fn has_workspace(&self, sandbox: &Sandbox) -> Result<bool, Error> {
        let volume = self.engine.volume_presence(sandbox.id()).await?;
        let (Some(disk), Some(disks)) = (sandbox.labels().disk, self.disks()) else {
            return Ok(volume == VolumePresence::Ours);
        };
        if volume == VolumePresence::Foreign {
            return Ok(false);
        }
        Ok(disks.list().await?.iter().any(|found| found.name == disk.name()))
    }

    /// The names of all disks, where they can be told.
    pub(super) async fn disk_names(&self) -> Option<HashSet<String>> {
        let listed = self.disks()?.list().await.ok()?;
        Some(listed.into_iter().map(|disk| disk.name).collect())
    }

    /// What a workspace takes, where that can be told.
    pub(super) async fn disk_bytes_of(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Option<u64> {
        if sandbox.look(|facts| facts.record.disk.is_none()) {
            return None;
        }
        told_by(agent).await.map(|info| info.disk_used_bytes)
    }

    /// What all workspaces take of the engine's disk together; without disks of their own that is unknown
    /// and counts as nothing.
    pub(super) async fn disk_bytes_of_all(&self) -> Result<u64, Error> {
        let Some(disks) = self.disks() else { return Ok(0) };
        Ok(disks.list().await?.iter().map(|disk| disk.allocated_bytes).sum())
    }

    /// Disks that no sandbox has and that do not wait for one.
    pub(super) async fn unclaimed_disks(&self) -> Result<Unclaimed, Error> {
        let Some(Quota::Disks { disks, pool }) = self.quota.get() else {
            return Ok(Unclaimed::default());
        };
        let listed = disks.list().await?;
        let mut claimed: HashSet<String> =
            pool.get().map(DiskPool::names).unwrap_or_default().into_iter().collect();
        let disk_of = |facts: &Facts| facts.record.disk.as_ref().map(|disk| disk.name().to_owned());
        claimed.extend(self.registry.all().iter().filter_map(|sandbox| sandbox.look(disk_of)));
        let mut unclaimed = Unclaimed::default();
        for disk in listed.into_iter().filter(|disk| !claimed.contains(&disk.name)) {
            if disk.used { unclaimed.used.push(disk.name) } else { unclaimed.unused.push(disk.name) }
        }
        Ok(unclaimed)
    }

    /// Removes disks that were never used and that no sandbox has; how many. One that is just changing hands belongs
    /// to nobody for a moment, so it takes being nobody's twice.
    pub(super) async fn sweep_unused_disks(&self, unused: Vec<String>) -> usize {
        let unused: HashSet<String> = unused.into_iter().collect();
        let before = {
            let mut suspects = self.suspect_disks.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *suspects, unused.clone())
        };
        let mut removed = 0;
        for name in unused.intersection(&before) {
            match self.remove_unclaimed_disk(name).await {
                Ok(()) => removed += 1,
                // It is tried again with the next sweep.
                Err(error) => warn!(
                    disk = name,
                    error = &error as &dyn std::error::Error,
                    "could not remove a disk without a sandbox"
                ),
            }
        }
        removed
    }

    pub(super) async fn remove_unclaimed_disk(&self, name: &str) -> Result<(), Error> {
        self.disks().ok_or(Error::NoDisks)?.remove(name).await?;
        info!(disk = name, "removed a disk without a sandbox");
        Ok(())
    }

    /// Begins to make disks ahead. Those of an earlier daemon were nobody's and are swept by now.
    pub(super) async fn make_disks_ahead(&self) -> Result<(), Error> {
        // The second look of two; nothing has changed hands yet. What an earlier daemon had ready is nothing to put right.
        let unclaimed = self.unclaimed_disks().await?;
        let _of_before = self.sweep_unused_disks(unclaimed.unused).await;
        if let Some(Quota::Disks { disks, pool }) = self.quota.get() {
            pool.get_or_init(|| DiskPool::new(disks.clone(), Resources::default().disk_mb()));
        }
        Ok(())
    }

    /// Ends the disks' helper. The last thing at a stop.
    pub(super) async fn close_disks(&self) {
        if let Some(disks) = self.disks() {
            disks.close().await;
        }
    }

    /// Why workspaces have no quota here.
    pub(super) fn no_quota_reason(&self) -> String {
        match self.quota.get() {
            Some(Quota::None { reason }) => reason.clone(),
            Some(Quota::Disks { .. }) => "disk quota: made before there was one".into(),
            None => "disk quota".into(),
        }
    }
}
