//! Whose engine this is, and whether this daemon may still act on it.
//!
//! An engine that shows nothing of ours may be the right one with another data root. So nothing is concluded from
//! what an engine does not have before its marker was seen. A daemon that finds a newer epoch than its own has a
//! successor, and stops acting.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use sandbox_api::SandboxId;
use tokio::time::sleep;
use tracing::{info, warn};

use super::activity::now_ms;
use super::epoch::random_word;
use super::{Error, Service};
use crate::engine::{Epoch, Volumes};
use crate::model::{OrphanKind, limits};
use crate::{seam, store};

/// What is known of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Standing {
    /// It may be another one by now: look before acting.
    #[default]
    Unsure,
    /// It has our marker, and no daemon came after this one.
    Ours,
    /// It has no marker of ours.
    Foreign,
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

/// The engine's standing, shared by all who act on it.
#[derive(Debug, Default)]
pub(super) struct Identity {
    inner: Mutex<(Standing, Option<Claimed>)>,
}

impl Identity {
    fn lock(&self) -> MutexGuard<'_, (Standing, Option<Claimed>)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing(&self) -> Standing {
        self.lock().0
    }

    fn claimed(&self) -> Option<Claimed> {
        self.lock().1.clone()
    }

    pub(super) fn is_superseded(&self) -> bool {
        self.standing() == Standing::Superseded
    }

    /// The engine went away for a moment; what comes back may be another one.
    pub(super) fn doubt(&self) {
        let mut inner = self.lock();
        if inner.0 == Standing::Ours {
            inner.0 = Standing::Unsure;
        }
    }

    /// Notes what was seen; whether it is news.
    fn note(&self, standing: Standing) -> bool {
        let mut inner = self.lock();
        // Nobody comes back from that but with a new start.
        if inner.0 == Standing::Superseded {
            return false;
        }
        let was = std::mem::replace(&mut inner.0, standing);
        was != standing && !(was == Standing::Unsure && standing == Standing::Ours)
    }
}

impl Service {
    /// Makes sure that the engine is the one that the rows belong to, and makes this daemon its newest owner.
    /// Does only the first when called again.
    pub(super) async fn settle_engine(&self) -> Result<(), Error> {
        if self.identity.claimed().is_some() {
            return self.verify_engine().await;
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
        if newest.is_some_and(|newest| newest.holder != self.setup.holder) {
            self.refuse_beside_another().await?;
        }
        let continuous = newest.is_none_or(|newest| self.is_of_ours(newest, &before));
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
        *self.identity.lock() = (Standing::Ours, Some(Claimed { marker, epoch, continuous }));
        Ok(())
    }

    /// Whether this start goes on where the last one ended, so that rows tell what became of their sandboxes.
    pub(super) fn is_continuous(&self) -> bool {
        self.identity.claimed().is_some_and(|claimed| claimed.continuous)
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
    pub(super) async fn verify_engine(&self) -> Result<(), Error> {
        let volumes = self.engine.volumes().await?;
        self.judge_engine(&volumes).await
    }

    /// The same for volumes that were listed just now.
    pub(super) async fn judge_engine(&self, volumes: &Volumes) -> Result<(), Error> {
        let Some(claimed) = self.identity.claimed() else {
            return Err(Error::NotReady { missing: "engine" });
        };
        let is_newer = |newest: &Epoch| newest.number >= claimed.epoch.number && *newest != claimed.epoch;
        if volumes.newest().is_some_and(is_newer) {
            if self.identity.note(Standing::Superseded) {
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
        if self.identity.note(Standing::Ours) {
            info!("the engine is ours again");
        }
        self.refuse_superseded()
    }

    async fn mark_again(&self, volumes: &Volumes, claimed: &Claimed) -> Result<(), Error> {
        // Of the store: during a start the registry does not have them yet.
        let known = self.store.sandboxes().await?.into_iter().map(|record| record.id).collect();
        let marker = match self.marker_for(volumes, Some(&claimed.marker), &known).await {
            Err(error @ Error::OtherEngine { .. }) => {
                if self.identity.note(Standing::Foreign) {
                    warn!(error = &error as &dyn std::error::Error, "nothing is done on this engine");
                }
                return Err(error);
            }
            other => other?,
        };
        if marker != claimed.marker {
            let identity = store::Identity { marker: Some(marker.clone()), ..self.store.identity().await? };
            self.store.set_identity(&identity).await?;
            if let Some(claimed) = &mut self.identity.lock().1 {
                claimed.marker = marker;
            }
        }
        Ok(())
    }

    /// Whether this daemon may act on the engine. Asks the engine only if that is in doubt.
    pub(super) async fn may_act(&self) -> Result<(), Error> {
        match self.identity.standing() {
            Standing::Ours => Ok(()),
            Standing::Superseded => Err(Error::Superseded),
            Standing::Unsure | Standing::Foreign => self.verify_engine().await,
        }
    }

    /// Whether the engine is known to be ours, as of the last look.
    pub fn check_engine(&self) -> Result<(), Error> {
        match self.identity.standing() {
            Standing::Ours | Standing::Unsure => Ok(()),
            Standing::Foreign => Err(Error::OtherEngine { sandboxes: self.registry.all().len() }),
            Standing::Superseded => Err(Error::Superseded),
        }
    }

    pub(super) fn refuse_superseded(&self) -> Result<(), Error> {
        if self.identity.is_superseded() { Err(Error::Superseded) } else { Ok(()) }
    }

    /// Hears at once of a daemon that is started after this one, and of the right engine's return.
    pub(super) async fn watch_engine(self: &Arc<Self>) {
        loop {
            let mut epochs = std::pin::pin!(self.engine.new_epochs(now_ms()));
            loop {
                let is_foreign = self.identity.standing() == Standing::Foreign;
                tokio::select! {
                    made = epochs.next() => match made {
                        Some(Ok(())) => drop(self.verify_engine().await),
                        Some(Err(_)) | None => break,
                    },
                    () = sleep(limits::EVENTS_RETRY) => {
                        if is_foreign && self.verify_engine().await.is_ok() {
                            // What is wrong now is told there.
                            drop(self.reconcile().await);
                        }
                    }
                }
            }
            self.identity.doubt();
            sleep(limits::EVENTS_RETRY).await;
            drop(self.verify_engine().await);
        }
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
