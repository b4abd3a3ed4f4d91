//! The workspaces' disks, their quota, and the free space that they grow into.
//!
//! A disk belongs to a sandbox, to the pool of disks that were created in advance, or to neither. A disk without an
//! owner is removed only if it certainly holds no files.

mod bases;
mod free_space;
mod space;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracing::{info, warn};

use self::bases::Bases;
pub(in crate::service) use self::bases::{BaseImage, BaseSource, HeldBase, ImageError};
use self::free_space::FreeSpace;
use super::ownership::Ownership;
use super::{Context, Error};
use crate::agent;
use crate::engine::{Attached, DiskPool, Disks, DisksProof, Engine, SandboxLabels, VOLUME_PLUGIN};
use crate::metrics::Metrics;
use crate::model::{Disk, DiskQuota, Lower, Resources, limits};

/// Whether and how workspaces have a quota on this engine.
#[derive(Debug)]
enum Quota {
    /// Each workspace has a file system of its own.
    Disks {
        disks: Disks,
        /// Disks that are created in advance. Set after the leftovers of an earlier daemon were swept.
        pool: OnceLock<DiskPool>,
    },
    /// No workspace has a quota. The reason is human-readable.
    None { reason: String },
}

/// Disks that no sandbox claims.
#[derive(Debug, Default)]
pub(in crate::service) struct Unclaimed {
    /// Never mounted, so they hold no files.
    pub(in crate::service) unused: Vec<String>,
    /// They may hold files.
    pub(in crate::service) used: Vec<String>,
}

/// A disk that can be mounted until it is released. Empty if the sandbox has no disk.
pub(in crate::service) struct AttachedDisk(Option<Attached>);

impl AttachedDisk {
    /// Releases the disk after it was mounted, or if it will not be.
    pub(in crate::service) async fn release(self) -> Result<(), Error> {
        match self.0 {
            Some(attached) => Ok(attached.release().await?),
            None => Ok(()),
        }
    }
}

/// The disks of workspaces, and the free space that they grow into.
#[derive(Debug)]
pub(in crate::service) struct Storage {
    engine: Engine,
    ownership: Arc<Ownership>,
    wanted: DiskQuota,
    /// Set once it is known whether workspaces have a quota.
    quota: OnceLock<Quota>,
    bases: Bases,
    metrics: Arc<Metrics>,
    free: FreeSpace,
    /// Unused disks without an owner at the last sweep.
    suspects: Mutex<HashSet<String>>,
}

impl Storage {
    pub(in crate::service) fn new(context: &Context, ownership: &Arc<Ownership>) -> Self {
        let plugin = context.setup.agent_program.with_file_name(VOLUME_PLUGIN);
        let metrics = Arc::clone(&context.metrics);
        let bases = Bases::new(plugin, context.setup.limits.bases_bytes, Arc::clone(&metrics));
        Self {
            engine: context.engine.clone(),
            ownership: Arc::clone(ownership),
            wanted: context.setup.disk_quota,
            quota: OnceLock::new(),
            bases,
            metrics,
            free: FreeSpace::default(),
            suspects: Mutex::default(),
        }
    }

    /// Finds out whether workspaces can have a quota on this engine, unless an earlier start has `proof` of it. Later calls
    /// do nothing.
    pub(in crate::service) async fn prepare(
        &self,
        image: &str,
        agent_volume: &str,
        proof: Option<DisksProof>,
    ) -> Result<(), Error> {
        if self.quota.get().is_none() {
            let quota = self.open_quota(image, agent_volume, proof).await?;
            let _ = self.quota.set(quota);
        }
        Ok(())
    }

    /// Whether workspaces have a quota, or the operator wants none.
    pub(in crate::service) fn has_wanted_quota(&self) -> bool {
        self.wanted == DiskQuota::Off || matches!(self.quota.get(), Some(Quota::Disks { .. }))
    }

    /// What was found about the disks, if workspaces have them.
    pub(in crate::service) fn proof(&self) -> Option<DisksProof> {
        match self.quota.get() {
            Some(Quota::Disks { disks, .. }) => Some(disks.proof()),
            Some(Quota::None { .. }) | None => None,
        }
    }

    async fn open_quota(
        &self,
        image: &str,
        agent_volume: &str,
        proof: Option<DisksProof>,
    ) -> Result<Quota, Error> {
        if self.wanted == DiskQuota::Off {
            return Ok(Quota::None { reason: "disk quota: switched off".into() });
        }
        if let Some(proof) = proof {
            match self.engine.open_proven_disks(image, agent_volume, proof).await {
                Ok(disks) => return Ok(Quota::Disks { disks, pool: OnceLock::new() }),
                Err(error) if error.is_inconclusive() => return Err(error.into()),
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "disks have worked here; testing them again"
                    );
                }
            }
        }
        match self.engine.open_disks(image, agent_volume).await {
            Ok(disks) => Ok(Quota::Disks { disks, pool: OnceLock::new() }),
            // An unreachable engine, or an unreadable answer, says nothing about disks.
            Err(error) if error.is_inconclusive() || self.wanted == DiskQuota::Required => Err(error.into()),
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "workspaces have no quota: this engine cannot mount the daemon's disks",
                );
                Ok(Quota::None { reason: format!("disk quota: {error}") })
            }
        }
    }

    /// Why a workspace without a disk has no quota, in words for the sandbox's posture.
    pub(in crate::service) fn no_quota_reason(&self) -> String {
        match self.quota.get() {
            Some(Quota::None { reason }) => reason.clone(),
            Some(Quota::Disks { .. }) => "disk quota: the sandbox was created without one".into(),
            None => "disk quota".into(),
        }
    }

    /// The disks. `None` if the engine is not ours: a request would start our helper there, and so end the helper of a
    /// newer daemon.
    fn disks(&self) -> Option<&Disks> {
        self.ownership.check().ok()?;
        match self.quota.get() {
            Some(Quota::Disks { disks, .. }) => Some(disks),
            Some(Quota::None { .. }) | None => None,
        }
    }

    /// Returns the base of a source, made first if there is none. `None` if a sandbox gets the files one by one. `may_take`
    /// tells whether a new base of this many bytes is wanted. `in_use` returns the names of the bases that sandboxes need,
    /// or `None` if some of them are unknown.
    pub(in crate::service) async fn base(
        &self,
        source: &dyn BaseSource,
        may_take: impl Fn(u64) -> bool,
        in_use: impl AsyncFnOnce() -> Result<Option<HashSet<String>>, Error>,
    ) -> Option<HeldBase> {
        let base = match self.disks() {
            Some(disks) => self.bases.get(&self.engine, disks, source, may_take, in_use).await,
            None => Ok(None),
        };
        // The files can be written one by one instead, which reports its own errors.
        let base = base.unwrap_or_else(|error| {
            let error = &error as &dyn std::error::Error;
            warn!(
                error,
                base = source.name(),
                "a sandbox gets a copy of its snapshot's files: it has no base"
            );
            None
        });
        if base.is_none() && self.bases.are_enabled() {
            self.metrics.copied_instead_of_base();
        }
        base
    }

    /// After a sandbox with this disk could not be started: repairs the volume plugin, and finds out whether the disk's
    /// base is the reason. Returns the error that says so, or the given one.
    pub(in crate::service) async fn explain_start(&self, disk: Option<&Disk>, error: Error) -> Error {
        let (Some(lower), Some(disks)) = (disk.and_then(Disk::lower), self.disks()) else { return error };
        let repaired = match &error {
            Error::Engine(_) => self.bases.repair(disks, lower.driver()).await,
            Error::Agent { source: agent::Error::NotConnected { .. } } => {
                self.bases.restart_plugin(disks, lower.driver()).await
            }
            _ => Ok(()),
        };
        if let Err(error) = repaired {
            warn!(error = &error as &dyn std::error::Error, "could not repair the volume plugin");
        }
        let Error::Engine(error) = error else { return error };
        match self.bases.fault(disks, lower.base(), &error).await {
            Some(fault) => Error::Base { base: lower.base().to_owned(), fault, source: error },
            None => error.into(),
        }
    }

    /// Removes the bases that no sandbox needs. Returns whether there was one.
    pub(in crate::service) async fn remove_unused_bases(
        &self,
        in_use: impl AsyncFnOnce() -> Result<Option<HashSet<String>>, Error>,
    ) -> bool {
        let Some(disks) = self.disks() else { return false };
        match self.bases.remove_unused(disks, in_use).await {
            Ok(bytes) => bytes > 0,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(error, "could not remove bases that no sandbox needs, and space is short");
                false
            }
        }
    }

    /// Removes earlier versions of the volume plugin that no volume and none of these drivers' sandboxes needs.
    pub(in crate::service) async fn remove_old_plugins(
        &self,
        drivers: &HashSet<String>,
    ) -> Result<(), Error> {
        let Some(disks) = self.disks() else { return Ok(()) };
        Ok(self.bases.remove_old_plugins(disks, drivers).await?)
    }

    /// Takes a disk for a new sandbox, to be used over a base if there is one. `None` if workspaces have no disks of their own.
    pub(in crate::service) async fn claim(
        &self,
        mib: u32,
        lower: Option<&Lower>,
    ) -> Result<Option<Disk>, Error> {
        let Some(Quota::Disks { disks, pool }) = self.quota.get() else {
            return Ok(None);
        };
        match self.measure_space().await? {
            Some(space) if space.free_bytes < limits::MIN_FREE_DISK_BYTES => {
                return Err(Error::DiskShort { free_bytes: space.free_bytes });
            }
            Some(_) | None => {}
        }
        let disk = match pool.get() {
            Some(pool) => pool.take(mib).await?,
            None => disks.make(mib).await?,
        };
        Ok(Some(match lower {
            Some(lower) => disk.over(lower.clone()),
            None => disk,
        }))
    }

    /// Whether there was enough space for another sandbox when it was measured last.
    pub(in crate::service) fn had_room(&self) -> bool {
        self.space().is_none_or(|space| space.free_bytes >= limits::MIN_FREE_DISK_BYTES)
    }

    /// Whether workspaces have disks of their own.
    pub(in crate::service) fn has_disks(&self) -> bool {
        matches!(self.quota.get(), Some(Quota::Disks { .. }))
    }

    /// Writes the labels of a sandbox beside its disk.
    pub(in crate::service) async fn set_note(&self, labels: &SandboxLabels) -> Result<(), Error> {
        let (disks, disk) = self.disks().zip(labels.disk.as_ref()).ok_or(Error::NoDisks)?;
        Ok(disks.set_note(disk, labels).await?)
    }

    /// The labels that were written beside the disk with this name.
    pub(in crate::service) async fn note(&self, disk: &str) -> Result<Option<SandboxLabels>, Error> {
        Ok(self.disks().ok_or(Error::NoDisks)?.note(disk).await?)
    }

    /// Makes a sandbox's disk mountable.
    pub(in crate::service) async fn attach(&self, labels: &SandboxLabels) -> Result<AttachedDisk, Error> {
        let Some(disk) = &labels.disk else {
            return Ok(AttachedDisk(None));
        };
        let disks = self.disks().ok_or(Error::NoDisks)?;
        Ok(AttachedDisk(Some(disks.attach(disk, labels.slot).await?)))
    }

    /// The block device or image that a container mounts.
    pub(in crate::service) fn device_of(&self, disk: Option<&Disk>) -> Option<String> {
        Some(self.disks()?.device(disk?))
    }

    /// Removes a disk. Idempotent: succeeds without one.
    pub(in crate::service) async fn remove(&self, disk: Option<&Disk>) -> Result<(), Error> {
        let Some(disk) = disk else {
            return Ok(());
        };
        let disks = self.disks().ok_or(Error::NoDisks)?;
        Ok(disks.remove(disk.name()).await?)
    }

    /// Whether a disk exists. `None` if the disks cannot be listed here.
    pub(in crate::service) async fn has(&self, disk: &Disk) -> Result<Option<bool>, Error> {
        let Some(disks) = self.disks() else { return Ok(None) };
        Ok(Some(disks.list().await?.iter().any(|found| found.name == disk.name())))
    }

    /// The names of all disks, each with whether a device may be attached to it, if they can be listed.
    pub(in crate::service) async fn listed_disks(&self) -> Option<HashMap<String, bool>> {
        let disks = self.disks()?;
        let listed = disks.list().await.ok()?;
        let sees_devices = disks.sees_devices();
        Some(listed.into_iter().map(|disk| (disk.name, disk.attached || !sees_devices)).collect())
    }

    /// Space that each base takes on the engine's disk, in bytes.
    pub(in crate::service) async fn base_bytes(&self) -> Result<HashMap<String, u64>, Error> {
        let Some(disks) = self.disks() else { return Ok(HashMap::new()) };
        Ok(disks.bases().await?.into_iter().map(|base| (base.name, base.allocated_bytes)).collect())
    }

    /// Space that each disk takes on the engine's disk, in bytes. Empty if workspaces have no disks of their own.
    pub(in crate::service) async fn allocated_bytes(&self) -> Result<HashMap<String, u64>, Error> {
        let Some(disks) = self.disks() else { return Ok(HashMap::new()) };
        Ok(disks.list().await?.into_iter().map(|disk| (disk.name, disk.allocated_bytes)).collect())
    }

    /// Disks that belong neither to a sandbox nor to the pool. `claimed` returns the names of the sandboxes' disks. It
    /// is called after the disks are listed, so that a disk that is assigned meanwhile counts as claimed.
    pub(in crate::service) async fn unclaimed(
        &self,
        claimed: impl FnOnce() -> HashSet<String>,
    ) -> Result<Unclaimed, Error> {
        let Some(Quota::Disks { disks, pool }) = self.quota.get() else {
            return Ok(Unclaimed::default());
        };
        let listed = disks.list().await?;
        let pooled: HashSet<String> =
            pool.get().map(DiskPool::names).unwrap_or_default().into_iter().collect();
        let claimed = claimed();
        let mut unclaimed = Unclaimed::default();
        let is_free = |name: &String| !pooled.contains(name) && !claimed.contains(name);
        for disk in listed.into_iter().filter(|disk| is_free(&disk.name)) {
            if disk.used { unclaimed.used.push(disk.name) } else { unclaimed.unused.push(disk.name) }
        }
        Ok(unclaimed)
    }

    /// Removes disks that were never used and have no owner. Returns their number. A disk that moves from the pool to a
    /// sandbox has no owner for a moment. So a disk is removed only if two sweeps in a row find it without one.
    pub(in crate::service) async fn sweep_unused(&self, unused: Vec<String>) -> usize {
        let unused: HashSet<String> = unused.into_iter().collect();
        let before = {
            let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *suspects, unused.clone())
        };
        let mut removed = 0;
        for name in unused.intersection(&before) {
            match self.remove_unclaimed(name).await {
                Ok(()) => removed += 1,
                // The next sweep retries.
                Err(error) => warn!(
                    disk = name,
                    error = &error as &dyn std::error::Error,
                    "could not remove a disk without a sandbox"
                ),
            }
        }
        removed
    }

    /// Removes a disk without an owner.
    pub(in crate::service) async fn remove_unclaimed(&self, name: &str) -> Result<(), Error> {
        self.disks().ok_or(Error::NoDisks)?.remove(name).await?;
        info!(disk = name, "disk without a sandbox removed");
        Ok(())
    }

    /// Starts to create disks in advance. Removes those that an earlier daemon created in advance.
    pub(in crate::service) async fn fill_pool(
        &self,
        claimed: impl FnOnce() -> HashSet<String>,
    ) -> Result<(), Error> {
        // The second sweep of the start; no disk has changed its owner yet. Leftovers of a pool are normal, so they are
        // not counted as repairs.
        let unclaimed = self.unclaimed(claimed).await?;
        let _leftovers = self.sweep_unused(unclaimed.unused).await;
        if let Some(Quota::Disks { disks, pool }) = self.quota.get() {
            pool.get_or_init(|| DiskPool::new(disks.clone(), Resources::default().disk_mb()));
        }
        Ok(())
    }

    /// Ends the disks' helper.
    pub(in crate::service) async fn close(&self) {
        if let Some(disks) = self.disks() {
            disks.close().await;
        }
    }
}
