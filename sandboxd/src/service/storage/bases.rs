//! Bases on the engine: existing ones, their uses, and the removal of unused ones to make room.
//!
//! Whether bases work on this engine is tested when the first one is made, because the test installs a plugin in the
//! engine and mounts a disk over a base. Until then, nothing is changed in the engine. If bases do not work, snapshots
//! are restored to new sandboxes file by file.

mod states;

use std::collections::HashSet;
use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures::future::BoxFuture;
use tokio::fs::File;
use tokio::time::timeout;
use tracing::{info, warn};

use self::states::{BaseLease, NotBefore, States};
use crate::engine::{self, BaseUse, Disks, Engine};
use crate::metrics::Metrics;
use crate::model::{Lower, limits};
use crate::service::{BaseFault, Error};

/// The source of a base.
pub(in crate::service) trait BaseSource: Send + Sync {
    /// Name of the base.
    fn name(&self) -> String;

    /// Reads the files of the base. `None` if they cannot be a base.
    fn read(&self) -> BoxFuture<'_, Result<Option<Box<dyn BaseImage>>, ImageError>>;
}

/// An image that is still to be written.
pub(in crate::service) trait BaseImage: Send + Sync {
    /// Its size in bytes.
    fn bytes(&self) -> u64;

    /// Writes it to a file, and returns the file at its beginning. `None` if it consists of holes, which an upload would
    /// store as zeros.
    fn write(&self) -> BoxFuture<'_, Result<Option<File>, ImageError>>;
}

/// Why there is no image.
pub(in crate::service) type ImageError = Box<dyn StdError + Send + Sync>;

/// A base that is not removed until this is dropped.
#[derive(Debug)]
pub(in crate::service) struct HeldBase {
    /// What a disk is used over.
    pub(in crate::service) lower: Lower,
    /// Space that its image takes, in bytes.
    pub(in crate::service) bytes: u64,
    _lease: BaseLease,
}

/// Why a base cannot be used now.
#[derive(Debug, thiserror::Error)]
pub(in crate::service) enum BaseError {
    #[error("its image cannot be made")]
    Image(#[source] ImageError),
    #[error("its image was not written within {} s", limits::BASE_IMAGE.as_secs())]
    Late,
    #[error(transparent)]
    Engine(#[from] engine::Error),
    #[error(transparent)]
    Sandboxes(#[from] Error),
}

/// The kernel cannot mount a base.
#[derive(Debug, thiserror::Error)]
#[error("the engine's machine has the kernel {found}, and bases need 6.12")]
struct OldKernel {
    found: String,
}

/// State of the bases.
#[derive(Debug)]
pub(super) struct Bases {
    /// The volume plugin's program.
    program: PathBuf,
    /// Space that all bases may take, in bytes.
    budget: u64,
    metrics: Arc<Metrics>,
    availability: Mutex<Availability>,
    /// Held while a base is made or removed.
    changing: tokio::sync::Mutex<()>,
    /// When an agent over a base did not answer, unless the plugin was restarted since.
    unanswered: Mutex<Option<Instant>>,
    states: States,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Availability {
    #[default]
    Unknown,
    /// The driver of volumes over bases. A disk was mounted with it.
    Available { driver: String },
    /// The reason was logged. Tried again at the given time, if the reason may pass.
    Unavailable { until: Option<Instant> },
}

impl Bases {
    pub(super) fn new(program: PathBuf, budget: u64, metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            program,
            budget,
            availability: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            unanswered: Mutex::default(),
            states: States::default(),
        }
    }

    /// Whether bases are enabled.
    pub(super) fn are_enabled(&self) -> bool {
        self.budget > 0
    }

    /// Returns a base, and makes it first if there is none. `None` if bases do not work here, there is no room for this
    /// one, or others take too long. `may_take` tells whether a new base of this many bytes is wanted. `in_use` returns the
    /// names of the bases that sandboxes need, or `None` if some of them are unknown.
    pub(super) async fn get(
        &self,
        engine: &Engine,
        disks: &Disks,
        source: &dyn BaseSource,
        may_take: impl Fn(u64) -> bool,
        in_use: impl AsyncFnOnce() -> Result<Option<HashSet<String>>, Error>,
    ) -> Result<Option<HeldBase>, BaseError> {
        if !self.are_enabled() || matches!(self.availability(), Availability::Unavailable { .. }) {
            return Ok(None);
        }
        let name = source.name();
        let Some(lease) = self.states.lease(&name) else { return Ok(None) };
        if let Availability::Available { driver } = self.availability()
            && let generation @ Some(_) = self.states.stable_generation(&name)
            && let Some(bytes) = self.usable(&disks.bases().await?, &name)
            // The list may include bases that were made or removed meanwhile.
            && self.states.stable_generation(&name) == generation
        {
            return Ok(Some(HeldBase { lower: lower(&driver, &name)?, bytes, _lease: lease }));
        }
        let Ok(_changing) = timeout(limits::BASE_WAIT, self.changing.lock()).await else { return Ok(None) };
        let Some(driver) = self.driver(engine, disks).await? else { return Ok(None) };
        self.remove_unsettled(disks).await;
        if self.states.stable_generation(&name).is_none() {
            return Ok(None);
        }
        let existing = disks.bases().await?;
        self.states.forget_absent(&existing);
        if existing.iter().any(|base| base.name == name) {
            let Some(bytes) = self.usable(&existing, &name) else { return Ok(None) };
            let lower = lower(&driver, &name)?;
            let is_mountable = self.probe(disks, &lower).await?;
            return Ok(is_mountable.then_some(HeldBase { lower, bytes, _lease: lease }));
        }
        let lower = lower(&driver, &name)?;
        let made = self.make_and_probe(disks, source, &lower, may_take, existing, in_use).await;
        if matches!(made, Ok(Some(_))) {
            self.states.set_unsettled(&name, false);
        } else {
            self.remove_unsettled(disks).await;
        }
        Ok(made?.map(|bytes| HeldBase { lower, bytes, _lease: lease }))
    }

    /// Makes a base, which is not settled then. Returns its size in bytes if it exists now and can be mounted.
    async fn make_and_probe(
        &self,
        disks: &Disks,
        source: &dyn BaseSource,
        lower: &Lower,
        may_take: impl Fn(u64) -> bool,
        existing: Vec<BaseUse>,
        in_use: impl AsyncFnOnce() -> Result<Option<HashSet<String>>, Error>,
    ) -> Result<Option<u64>, BaseError> {
        let is_made = self.make(disks, source, may_take, existing, in_use).await?;
        if !is_made || !self.probe(disks, lower).await? {
            return Ok(None);
        }
        Ok(self.usable(&disks.bases().await?, lower.base()))
    }

    /// Makes a base, which is not settled then. Returns whether it exists now.
    async fn make(
        &self,
        disks: &Disks,
        source: &dyn BaseSource,
        may_take: impl Fn(u64) -> bool,
        existing: Vec<BaseUse>,
        in_use: impl AsyncFnOnce() -> Result<Option<HashSet<String>>, Error>,
    ) -> Result<bool, BaseError> {
        let name = source.name();
        let late = || {
            self.states.set_not_before(&name, NotBefore::Time(Instant::now() + limits::BASE_BUILD_PAUSE));
            BaseError::Late
        };
        let read = timeout(limits::BASE_IMAGE, source.read()).await.map_err(|_| late())?;
        let Some(image) = read.map_err(BaseError::Image)?.filter(|image| image.bytes() <= self.budget) else {
            info!(
                base = name,
                "the files of a snapshot cannot be a base, or it would exceed SANDBOXD_BASES_MB"
            );
            self.states.set_not_before(&name, NotBefore::Never);
            return Ok(false);
        };
        let bytes = image.bytes();
        if !may_take(bytes) {
            return Ok(false);
        }
        if !self.make_room(disks, existing, bytes, in_use).await? {
            warn!(
                base = name,
                bytes, "there is no room for a base: see SANDBOXD_BASES_MB, and the free space"
            );
            return Ok(false);
        }
        let written = timeout(limits::BASE_IMAGE, image.write()).await.map_err(|_| late())?;
        let Some(file) = written.map_err(BaseError::Image)? else {
            info!(base = name, bytes, "a snapshot has too many holes for a base");
            self.states.set_not_before(&name, NotBefore::Never);
            return Ok(false);
        };
        // The image is on a disk already, which may be the same one.
        let free = disks.space().await?.free_bytes;
        if free < bytes.saturating_add(limits::TIGHT_SPACE_BYTES) {
            warn!(
                base = name,
                bytes, free, "there is no room for a second copy of a base, which its upload needs"
            );
            return Ok(false);
        }
        self.states.set_unsettled(&name, true);
        if let Err(error) = disks.put_base(&name, file, bytes).await {
            self.states.set_not_before(&name, NotBefore::Time(Instant::now() + limits::BASE_BUILD_PAUSE));
            return Err(error.into());
        }
        info!(base = name, bytes, "base made");
        self.metrics.base_made();
        Ok(true)
    }

    /// The driver of volumes over bases. Installs its plugin. `None` if the engine does not support it.
    async fn driver(&self, engine: &Engine, disks: &Disks) -> Result<Option<String>, engine::Error> {
        match self.availability() {
            Availability::Available { driver } => return Ok(Some(driver)),
            Availability::Unavailable { .. } => return Ok(None),
            Availability::Unknown => {}
        }
        let facts = engine.facts().await?;
        if !facts.mounts_images() {
            self.set_unavailable(&OldKernel { found: facts.kernel }, None);
            return Ok(None);
        }
        match disks.ensure_volume_plugin(&self.program).await {
            Ok(driver) => Ok(Some(driver)),
            Err(error) => self.record_unavailable(error).map(|()| None),
        }
    }

    /// Whether a disk can be mounted over the base, tried once.
    async fn probe(&self, disks: &Disks, lower: &Lower) -> Result<bool, engine::Error> {
        if matches!(self.availability(), Availability::Available { .. }) {
            return Ok(true);
        }
        match disks.prove_base(lower).await {
            Ok(()) => {
                *lock(&self.availability) = Availability::Available { driver: lower.driver().to_owned() };
                Ok(true)
            }
            Err(error) => self.record_unavailable(error).map(|()| false),
        }
    }

    /// Records that bases do not work on this engine for a while, unless the error is inconclusive. The engine answers many
    /// conclusive errors like temporary ones.
    fn record_unavailable(&self, error: engine::Error) -> Result<(), engine::Error> {
        if error.is_inconclusive() || matches!(error, engine::Error::Disk { .. }) {
            return Err(error);
        }
        self.set_unavailable(&error, Some(Instant::now() + limits::BASE_SUPPORT_RETEST));
        Ok(())
    }

    fn set_unavailable(&self, reason: &(dyn StdError + 'static), until: Option<Instant>) {
        warn!(reason, "sandboxes do not share the files of a snapshot on this engine; each gets a copy");
        *lock(&self.availability) = Availability::Unavailable { until };
    }

    /// Space in bytes that a base takes, if it exists and was not found to be damaged.
    fn usable(&self, existing: &[BaseUse], name: &str) -> Option<u64> {
        let base = existing.iter().find(|base| base.name == name && !self.states.is_damaged(base))?;
        Some(base.allocated_bytes)
    }

    /// What is wrong with a base after a sandbox over it could not be started. `None` if the engine's error has another
    /// cause. A damaged base is kept, because parked sandboxes may need it and an operator may repair it. Until its file is
    /// another one, it is not used for new sandboxes.
    pub(super) async fn fault(&self, disks: &Disks, name: &str, error: &engine::Error) -> Option<BaseFault> {
        let existing = disks.bases().await.ok()?;
        match existing.into_iter().find(|base| base.name == name) {
            None => Some(BaseFault::Missing),
            Some(base) if error.is_base_rejected() => {
                self.states.set_damaged(base);
                Some(BaseFault::Damaged)
            }
            Some(_) => None,
        }
    }

    /// Starts the plugin of `driver`, and installs it again if it is missing and of this version. Called if a sandbox over a
    /// base could not be started.
    pub(super) async fn repair(&self, disks: &Disks, driver: &str) -> Result<(), engine::Error> {
        let Ok(_changing) = timeout(limits::BASE_WAIT, self.changing.lock()).await else { return Ok(()) };
        if disks.volume_plugin(&self.program).await? == driver {
            disks.ensure_volume_plugin(&self.program).await.map(drop)
        } else {
            disks.start_volume_plugin(driver).await
        }
    }

    /// Restarts the plugin of `driver` if this is the second time within a minute. Called if the agent of a sandbox over a base
    /// did not answer. The engine may have unmounted the directory that it shares with the plugin, and then the containers see
    /// nothing of what the plugin mounts. A single agent may also be slow.
    pub(super) async fn restart_plugin(&self, disks: &Disks, driver: &str) -> Result<(), engine::Error> {
        let Ok(_changing) = timeout(limits::BASE_WAIT, self.changing.lock()).await else { return Ok(()) };
        {
            let mut last = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_none_or(|last| last.elapsed() > limits::PLUGIN_SUSPICION) {
                *last = Some(Instant::now());
                return Ok(());
            }
            *last = None;
        }
        warn!(driver, "agents of sandboxes over bases did not answer; restarting the volume plugin");
        disks.restart_volume_plugin(driver).await
    }

    /// Removes earlier versions of the plugin that no volume and none of these drivers' sandboxes needs.
    pub(super) async fn remove_old_plugins(
        &self,
        disks: &Disks,
        drivers: &HashSet<String>,
    ) -> Result<(), engine::Error> {
        if !self.program.exists() {
            return Ok(());
        }
        disks.remove_old_volume_plugins(&self.program, |name| drivers.contains(name)).await
    }

    /// Removes all bases that no sandbox needs. Returns the space that they took, in bytes.
    pub(super) async fn remove_unused(
        &self,
        disks: &Disks,
        in_use: impl AsyncFnOnce() -> Result<Option<HashSet<String>>, Error>,
    ) -> Result<u64, BaseError> {
        let Ok(_changing) = timeout(limits::BASE_WAIT, self.changing.lock()).await else { return Ok(0) };
        self.remove_unsettled(disks).await;
        let existing = disks.bases().await?;
        if existing.is_empty() {
            return Ok(0);
        }
        let Some(unused) = self.unused(existing, in_use).await? else { return Ok(0) };
        Ok(self.remove_first(disks, unused, u64::MAX).await?)
    }

    /// Removes bases that no sandbox needs until there is room for another of `bytes` bytes. Returns whether there is.
    /// Removes none if there would not be.
    async fn make_room(
        &self,
        disks: &Disks,
        existing: Vec<BaseUse>,
        bytes: u64,
        in_use: impl AsyncFnOnce() -> Result<Option<HashSet<String>>, Error>,
    ) -> Result<bool, BaseError> {
        let free = disks.space().await?.free_bytes;
        let over_budget = (total(&existing) + bytes).saturating_sub(self.budget);
        let short = bytes.saturating_add(limits::TIGHT_SPACE_BYTES).saturating_sub(free);
        let needed = over_budget.max(short);
        if needed == 0 {
            return Ok(true);
        }
        let Some(unused) = self.unused(existing, in_use).await? else { return Ok(false) };
        if total(&unused) < needed {
            self.states.keep(unused, |_| true);
            return Ok(false);
        }
        Ok(self.remove_first(disks, unused, needed).await? >= needed)
    }

    /// Marks the bases that no sandbox needs, and returns them. `None` if that is not known.
    async fn unused(
        &self,
        existing: Vec<BaseUse>,
        in_use: impl AsyncFnOnce() -> Result<Option<HashSet<String>>, Error>,
    ) -> Result<Option<Vec<BaseUse>>, Error> {
        // In this order: a base that is held briefly in between is excluded by one of the two.
        let removable = self.states.candidates(existing);
        match in_use().await {
            Ok(Some(in_use)) => Ok(Some(self.states.keep(removable, |base| in_use.contains(&base.name)))),
            unknown => {
                self.states.keep(removable, |_| true);
                unknown.map(|_| None)
            }
        }
    }

    /// Removes the first of these bases until `needed` bytes are free. Returns how many are.
    async fn remove_first(
        &self,
        disks: &Disks,
        mut unused: Vec<BaseUse>,
        needed: u64,
    ) -> Result<u64, engine::Error> {
        unused.sort_by_key(|base| std::cmp::Reverse(self.states.used_ms(base)));
        let mut removed = 0;
        while removed < needed
            && let Some(base) = unused.pop()
        {
            self.states.set_unsettled(&base.name, true);
            if let Err(error) = disks.remove_base(&base.name).await {
                self.states.keep(unused, |_| true);
                return Err(error);
            }
            self.states.set_unsettled(&base.name, false);
            info!(base = base.name, bytes = base.allocated_bytes, "base removed to make room");
            removed += base.allocated_bytes;
        }
        self.states.keep(unused, |_| true);
        Ok(removed)
    }

    /// Removes the bases that are not settled. None of them is in use. If one cannot be removed, it stays unsettled. Also
    /// clears the candidates of an interrupted selection.
    async fn remove_unsettled(&self, disks: &Disks) {
        for name in self.states.begin_to_remove_unsettled() {
            match disks.remove_base(&name).await {
                Ok(()) => self.states.set_unsettled(&name, false),
                Err(error) => {
                    let error = &error as &dyn StdError;
                    warn!(error, base = name, "could not remove what may be left of a base");
                }
            }
        }
    }

    fn availability(&self) -> Availability {
        let mut availability = lock(&self.availability);
        if let Availability::Unavailable { until: Some(until) } = *availability
            && until <= Instant::now()
        {
            *availability = Availability::Unknown;
        }
        availability.clone()
    }
}

fn lower(driver: &str, base: &str) -> Result<Lower, Error> {
    Ok(Lower::new(base, driver).map_err(crate::model::Refusal::from)?)
}

fn total(bases: &[BaseUse]) -> u64 {
    bases.iter().map(|base| base.allocated_bytes).sum()
}

/// A panic while the lock was held leaves no inconsistent state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
