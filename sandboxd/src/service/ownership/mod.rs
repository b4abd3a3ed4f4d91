//! Whether the engine is ours, and whether this daemon may still act on it.
//!
//! An engine without any object of ours may be the right engine with another data root. So a missing object proves
//! nothing until the engine's marker was found. A daemon that finds a newer epoch than its own has a successor, and
//! stops acting.

mod epoch;
mod random_id;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::SandboxId;
use tracing::{info, warn};

use self::random_id::random_id;
use super::{Context, Error, OwnershipError};
use crate::engine::{Engine, Epoch, Volumes};
use crate::model::{Instance, OrphanKind};
use crate::seam;
use crate::store::{self, Store};

/// Whether the engine is ours, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Standing {
    /// It may be another engine by now: verify before acting.
    #[default]
    Unverified,
    /// It has our marker, and no daemon was started after this one.
    Ours,
    /// It does not have our marker, and nothing of the sandboxes in the store. `sandboxes` is their number.
    Foreign { sandboxes: usize },
    /// Another daemon of this instance was started after this one.
    Superseded,
}

/// The result of [`Ownership::claim_engine`].
#[derive(Debug, Clone)]
struct Claim {
    marker: String,
    epoch: Epoch,
    /// The previous start used the same state dir, and the state dir was not restored from a backup since.
    continuous: bool,
}

#[derive(Debug, Default)]
struct Status {
    standing: Standing,
    /// `None` until the start has claimed the engine.
    claim: Option<Claim>,
}

/// Claims the engine during the start, and verifies the claim later.
#[derive(Debug)]
pub(in crate::service) struct Ownership {
    engine: Engine,
    store: Arc<Store>,
    instance: Arc<Instance>,
    /// Distinguishes the state dir from a copy of it.
    holder: String,
    status: Mutex<Status>,
}

impl Ownership {
    pub(in crate::service) fn new(context: &Context) -> Self {
        Self {
            engine: context.engine.clone(),
            store: Arc::clone(&context.store),
            instance: Arc::clone(&context.instance),
            holder: context.setup.holder.clone(),
            status: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing(&self) -> Standing {
        self.lock().standing
    }

    fn claim(&self) -> Option<Claim> {
        self.lock().claim.clone()
    }

    /// Whether the last check found an engine that is not ours.
    pub(in crate::service) fn is_foreign(&self) -> bool {
        matches!(self.standing(), Standing::Foreign { .. })
    }

    /// Records that the engine was unavailable. The engine that answers next may be another one.
    pub(in crate::service) fn mark_unverified(&self) {
        let mut status = self.lock();
        if status.standing == Standing::Ours {
            status.standing = Standing::Unverified;
        }
    }

    /// Records the result of a verification. Returns whether it is news, and so worth a log line.
    fn set_standing(&self, standing: Standing) -> bool {
        let mut status = self.lock();
        // Final for this process.
        if status.standing == Standing::Superseded {
            return false;
        }
        let was = std::mem::replace(&mut status.standing, standing);
        let is_same = std::mem::discriminant(&was) == std::mem::discriminant(&standing);
        let is_confirmed = was == Standing::Unverified && standing == Standing::Ours;
        !is_same && !is_confirmed
    }

    /// Ensures that the engine is the one that the store's rows belong to, and makes this daemon its newest owner.
    /// Later calls only verify the claim.
    pub(in crate::service) async fn claim_engine(&self) -> Result<(), Error> {
        if self.claim().is_some() {
            return self.verify().await;
        }
        let mut before = self.store.identity().await?;
        let found = self.instance.id();
        if let Some(recorded) = before.instance.as_ref().filter(|recorded| *recorded != found) {
            return Err(OwnershipError::OtherInstance {
                recorded: recorded.clone(),
                found: found.to_owned(),
            }
            .into());
        }
        let volumes = self.engine.volumes().await?;
        let known = self.store.sandboxes().await?.into_iter().map(|record| record.id).collect();
        let marker = self.marker_for(&volumes, before.marker.as_deref(), &known).await?;
        let newest = volumes.newest();
        if newest.is_some_and(|newest| newest.holder != self.holder) {
            self.ensure_no_other_daemon().await?;
        }
        let continuous = newest.is_none_or(|newest| self.is_from_this_state_dir(newest, &before));
        if !continuous {
            warn!(
                "the state dir is a copy or was restored from a backup; sandboxes without a row are restored from the engine's labels"
            );
            self.forget_orphans().await;
        }
        let engine = self.engine.id().await?;
        if before.engine.as_ref().is_some_and(|before| *before != engine) {
            warn!(engine, "the engine has our marker, but another id than at the last start");
        }
        before.instance = Some(found.to_owned());
        before.engine = Some(engine);
        before.marker = Some(marker.clone());
        seam::at("epoch.intent");
        let epoch = self.claim_epoch(&volumes, &mut before).await?;
        seam::at("epoch.outcome");
        let claim = Some(Claim { marker, epoch, continuous });
        *self.lock() = Status { standing: Standing::Ours, claim };
        Ok(())
    }

    /// Whether this start continues where the last run ended. If so, the store's rows are up to date.
    pub(in crate::service) fn is_continuous(&self) -> bool {
        self.claim().is_some_and(|claim| claim.continuous)
    }

    /// Returns the id in the engine's marker. Creates the marker if nothing can be lost by that. This is so if the
    /// store has no sandboxes, or the engine has an object of at least one of them.
    async fn marker_for(
        &self,
        volumes: &Volumes,
        recorded: Option<&str>,
        known: &HashSet<SandboxId>,
    ) -> Result<String, Error> {
        match (volumes.marker.as_deref(), recorded) {
            (Some(found), Some(recorded)) if found == recorded => return Ok(found.to_owned()),
            // A database of an older version, or a new one.
            (Some(found), None) => return Ok(found.to_owned()),
            _ => {}
        }
        if !known.is_empty() && !self.has_any_of(volumes, known).await? {
            return Err(OwnershipError::OtherEngine { sandboxes: known.len() }.into());
        }
        if let Some(found) = &volumes.marker {
            return Ok(found.clone());
        }
        // Without sandboxes this may be another engine, so it gets a new id.
        let marker = match recorded.filter(|_| !known.is_empty()) {
            Some(recorded) => recorded.to_owned(),
            None => random_id()?,
        };
        self.engine.make_marker(&marker).await?;
        seam::at("marker.made");
        info!("engine marked as ours");
        Ok(marker)
    }

    async fn has_any_of(&self, volumes: &Volumes, known: &HashSet<SandboxId>) -> Result<bool, Error> {
        if volumes.sandboxes.iter().any(|labels| known.contains(&labels.id)) {
            return Ok(true);
        }
        let containers = self.engine.list().await?.ours;
        let mut ours = containers.into_iter().filter_map(|found| found.labels);
        Ok(ours.any(|labels| known.contains(&labels.id)))
    }

    /// Asks the engine whether it is ours. Required before anything is concluded from an object that the engine lacks.
    pub(in crate::service) async fn verify(&self) -> Result<(), Error> {
        let volumes = self.engine.volumes().await?;
        self.verify_listed(&volumes).await
    }

    /// As [`Self::verify`], with volumes that were just listed.
    pub(in crate::service) async fn verify_listed(&self, volumes: &Volumes) -> Result<(), Error> {
        let Some(claim) = self.claim() else {
            return Err(Error::NotReady { missing: "engine" });
        };
        let is_newer = |newest: &Epoch| newest.number >= claim.epoch.number && *newest != claim.epoch;
        if volumes.newest().is_some_and(is_newer) {
            if self.set_standing(Standing::Superseded) {
                warn!(
                    "another sandboxd with this instance key was started after this one; this one stops acting"
                );
            }
            return Err(OwnershipError::Superseded.into());
        }
        if volumes.marker.as_ref() != Some(&claim.marker) {
            self.restore_marker(volumes, &claim).await?;
        }
        if volumes.newest().is_none() {
            // The epoch was removed by hand. Without it, the next start would look like a first one.
            self.engine.make_epoch(&claim.epoch).await?;
        }
        if self.set_standing(Standing::Ours) {
            info!("the engine is ours again");
        }
        self.check_not_superseded()
    }

    /// Handles an engine without our marker, or with another one: creates or accepts the marker, or rejects the engine.
    async fn restore_marker(&self, volumes: &Volumes, claim: &Claim) -> Result<(), Error> {
        // From the store, because the registry is empty during a start.
        let known = self.store.sandboxes().await?.into_iter().map(|record| record.id).collect();
        let marker = match self.marker_for(volumes, Some(&claim.marker), &known).await {
            Err(error @ Error::Ownership(OwnershipError::OtherEngine { sandboxes })) => {
                if self.set_standing(Standing::Foreign { sandboxes }) {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "the engine is not ours; the daemon does not act on it"
                    );
                }
                return Err(error);
            }
            other => other?,
        };
        if marker != claim.marker {
            let identity = store::Identity { marker: Some(marker.clone()), ..self.store.identity().await? };
            self.store.set_identity(&identity).await?;
            if let Some(claim) = &mut self.lock().claim {
                claim.marker = marker;
            }
        }
        Ok(())
    }

    /// Returns an error unless this daemon may act on the engine. Asks the engine only if that is uncertain.
    pub(in crate::service) async fn ensure_owned(&self) -> Result<(), Error> {
        match self.standing() {
            Standing::Ours => Ok(()),
            Standing::Superseded => Err(Error::Ownership(OwnershipError::Superseded)),
            Standing::Unverified | Standing::Foreign { .. } => self.verify().await,
        }
    }

    /// Returns an error if the last verification found that this daemon may not act on the engine.
    pub(in crate::service) fn check(&self) -> Result<(), Error> {
        match self.standing() {
            Standing::Ours | Standing::Unverified => Ok(()),
            Standing::Foreign { sandboxes } => {
                Err(Error::Ownership(OwnershipError::OtherEngine { sandboxes }))
            }
            Standing::Superseded => Err(Error::Ownership(OwnershipError::Superseded)),
        }
    }

    /// Returns an error if a newer daemon owns the engine.
    pub(in crate::service) fn check_not_superseded(&self) -> Result<(), Error> {
        if self.standing() == Standing::Superseded {
            Err(Error::Ownership(OwnershipError::Superseded))
        } else {
            Ok(())
        }
    }

    /// Clears the times since when objects have been orphans: a time from before the state dir was restored means nothing.
    async fn forget_orphans(&self) {
        let kept = self.store.orphans().await.unwrap_or_default();
        let kept: Vec<_> = kept.into_iter().filter(|orphan| orphan.kind == OrphanKind::Deleted).collect();
        if let Err(error) = self.store.set_orphans(&kept).await {
            warn!(error = &error as &dyn std::error::Error, "could not write the orphans to the store");
        }
    }
}
