//! Whose engine this is, and whether this daemon may still act on it.
//!
//! An engine that shows nothing of ours may be the right one with another data root. So nothing is concluded from
//! what an engine does not have before its marker was seen. A daemon that finds a newer epoch than its own has a
//! successor, and stops acting.

mod epoch;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::SandboxId;
use tracing::{info, warn};

use self::epoch::random_word;
use super::{Context, Error};
use crate::engine::{Engine, Epoch, Volumes};
use crate::model::{Instance, OrphanKind};
use crate::seam;
use crate::store::{self, Store};

/// What is known of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Standing {
    /// It may be another one by now: look before acting.
    #[default]
    Unsure,
    /// It has our marker, and no daemon came after this one.
    Ours,
    /// It has no marker of ours, while the store has so many sandboxes.
    Foreign { sandboxes: usize },
    /// Another daemon of this instance was started after this one.
    Superseded,
}

/// What the start settled.
#[derive(Debug, Clone)]
struct Claimed {
    marker: String,
    epoch: Epoch,
    /// The start before this one was of the same state dir, and nothing was restored in between.
    continuous: bool,
}

/// Knows whether the engine is ours.
#[derive(Debug)]
pub(in crate::service) struct Ownership {
    engine: Engine,
    store: Arc<Store>,
    instance: Arc<Instance>,
    /// Tells the state dir from a copy of it.
    holder: String,
    known: Mutex<(Standing, Option<Claimed>)>,
}

impl Ownership {
    pub(in crate::service) fn new(context: &Context) -> Self {
        Self {
            engine: context.engine.clone(),
            store: Arc::clone(&context.store),
            instance: Arc::clone(&context.instance),
            holder: context.setup.holder.clone(),
            known: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Standing, Option<Claimed>)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing(&self) -> Standing {
        self.lock().0
    }

    fn claimed(&self) -> Option<Claimed> {
        self.lock().1.clone()
    }

    /// Whether the last check found an engine that is not ours.
    pub(in crate::service) fn is_foreign(&self) -> bool {
        matches!(self.standing(), Standing::Foreign { .. })
    }

    /// The engine was away for a moment. What comes back may be another one.
    pub(in crate::service) fn doubt(&self) {
        let mut known = self.lock();
        if known.0 == Standing::Ours {
            known.0 = Standing::Unsure;
        }
    }

    /// Records what was seen. Returns whether it is news.
    fn note(&self, standing: Standing) -> bool {
        let mut known = self.lock();
        // Only a new start leaves this state.
        if known.0 == Standing::Superseded {
            return false;
        }
        let was = std::mem::replace(&mut known.0, standing);
        let is_same = std::mem::discriminant(&was) == std::mem::discriminant(&standing);
        let is_confirmed = was == Standing::Unsure && standing == Standing::Ours;
        !is_same && !is_confirmed
    }

    /// Makes sure that the engine is the one that the rows belong to, and makes this daemon its newest owner.
    /// Does only the first when called again.
    pub(in crate::service) async fn settle(&self) -> Result<(), Error> {
        if self.claimed().is_some() {
            return self.verify().await;
        }
        let mut before = self.store.identity().await?;
        let found = self.instance.id();
        if let Some(recorded) = before.instance.as_ref().filter(|recorded| *recorded != found) {
            return Err(Error::OtherInstance { recorded: recorded.clone(), found: found.to_owned() });
        }
        let volumes = self.engine.volumes().await?;
        let known = self.store.sandboxes().await?.into_iter().map(|record| record.id).collect();
        let marker = self.marker_for(&volumes, before.marker.as_deref(), &known).await?;
        let newest = volumes.newest();
        if newest.is_some_and(|newest| newest.holder != self.holder) {
            self.refuse_beside_another().await?;
        }
        let continuous = newest.is_none_or(|newest| self.is_ours(newest, &before));
        if !continuous {
            warn!(
                "the state dir is a copy or was restored from a backup; what only the engine knows is taken in from its labels"
            );
            self.forget_orphans().await;
        }
        let engine = self.engine.id().await?;
        if before.engine.as_ref().is_some_and(|before| *before != engine) {
            warn!(engine, "the engine has another id than at the last start, and our marker");
        }
        before.instance = Some(found.to_owned());
        before.engine = Some(engine);
        before.marker = Some(marker.clone());
        seam::at("epoch.intent");
        let epoch = self.claim_epoch(&volumes, &mut before).await?;
        seam::at("epoch.outcome");
        *self.lock() = (Standing::Ours, Some(Claimed { marker, epoch, continuous }));
        Ok(())
    }

    /// Whether this start goes on where the last one ended, so that rows tell what became of their sandboxes.
    pub(in crate::service) fn is_continuous(&self) -> bool {
        self.claimed().is_some_and(|claimed| claimed.continuous)
    }

    /// The word of the engine's marker, which is made if nothing can be lost by that: there are no sandboxes, or
    /// the engine has something of one of them.
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
        if !known.is_empty() && !self.has_any(volumes, known).await? {
            return Err(Error::OtherEngine { sandboxes: known.len() });
        }
        if let Some(found) = &volumes.marker {
            return Ok(found.clone());
        }
        // Another word than before where there are no sandboxes: this may be another engine.
        let word = match recorded.filter(|_| !known.is_empty()) {
            Some(recorded) => recorded.to_owned(),
            None => random_word()?,
        };
        self.engine.make_marker(&word).await?;
        seam::at("marker.made");
        info!("marked the engine as ours");
        Ok(word)
    }

    async fn has_any(&self, volumes: &Volumes, known: &HashSet<SandboxId>) -> Result<bool, Error> {
        if volumes.sandboxes.iter().any(|labels| known.contains(&labels.id)) {
            return Ok(true);
        }
        let containers = self.engine.list().await?;
        let mut ours = containers.into_iter().filter_map(|found| found.labels);
        Ok(ours.any(|labels| known.contains(&labels.id)))
    }

    /// Looks now whether the engine is ours. Before anything is concluded from what the engine does not have.
    pub(in crate::service) async fn verify(&self) -> Result<(), Error> {
        let volumes = self.engine.volumes().await?;
        self.judge(&volumes).await
    }

    /// The same for volumes that were listed just now.
    pub(in crate::service) async fn judge(&self, volumes: &Volumes) -> Result<(), Error> {
        let Some(claimed) = self.claimed() else {
            return Err(Error::NotReady { missing: "engine" });
        };
        let is_newer = |newest: &Epoch| newest.number >= claimed.epoch.number && *newest != claimed.epoch;
        if volumes.newest().is_some_and(is_newer) {
            if self.note(Standing::Superseded) {
                warn!(
                    "another sandboxd with this instance key was started after this one; this one stops acting"
                );
            }
            return Err(Error::Superseded);
        }
        if volumes.marker.as_ref() != Some(&claimed.marker) {
            self.mark_again(volumes, &claimed).await?;
        }
        if volumes.newest().is_none() {
            // Removed by hand; without it the next start would take itself for a first one.
            self.engine.make_epoch(&claimed.epoch).await?;
        }
        if self.note(Standing::Ours) {
            info!("the engine is ours again");
        }
        self.refuse_superseded()
    }

    async fn mark_again(&self, volumes: &Volumes, claimed: &Claimed) -> Result<(), Error> {
        // Of the store: during a start the registry does not have them yet.
        let known = self.store.sandboxes().await?.into_iter().map(|record| record.id).collect();
        let marker = match self.marker_for(volumes, Some(&claimed.marker), &known).await {
            Err(error @ Error::OtherEngine { sandboxes }) => {
                if self.note(Standing::Foreign { sandboxes }) {
                    warn!(error = &error as &dyn std::error::Error, "nothing is done on this engine");
                }
                return Err(error);
            }
            other => other?,
        };
        if marker != claimed.marker {
            let identity = store::Identity { marker: Some(marker.clone()), ..self.store.identity().await? };
            self.store.set_identity(&identity).await?;
            if let Some(claimed) = &mut self.lock().1 {
                claimed.marker = marker;
            }
        }
        Ok(())
    }

    /// Whether this daemon may act on the engine. Asks the engine only if that is in doubt.
    pub(in crate::service) async fn may_act(&self) -> Result<(), Error> {
        match self.standing() {
            Standing::Ours => Ok(()),
            Standing::Superseded => Err(Error::Superseded),
            Standing::Unsure | Standing::Foreign { .. } => self.verify().await,
        }
    }

    /// Whether the engine is known to be ours, as of the last look.
    pub(in crate::service) fn check(&self) -> Result<(), Error> {
        match self.standing() {
            Standing::Ours | Standing::Unsure => Ok(()),
            Standing::Foreign { sandboxes } => Err(Error::OtherEngine { sandboxes }),
            Standing::Superseded => Err(Error::Superseded),
        }
    }

    pub(in crate::service) fn refuse_superseded(&self) -> Result<(), Error> {
        if self.standing() == Standing::Superseded { Err(Error::Superseded) } else { Ok(()) }
    }

    /// A grace that began before the state dir was restored says nothing.
    async fn forget_orphans(&self) {
        let kept = self.store.orphans().await.unwrap_or_default();
        let kept: Vec<_> = kept.into_iter().filter(|orphan| orphan.kind == OrphanKind::Deleted).collect();
        if let Err(error) = self.store.set_orphans(&kept).await {
            warn!(error = &error as &dyn std::error::Error, "the store could not be written");
        }
    }
}
