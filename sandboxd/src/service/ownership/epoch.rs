//! The epochs on the engine, one for each start. Of two daemons with the same instance key, only the newer one acts.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use super::random_id::random_id;
use super::{Error, Ownership};
use crate::engine::{Epoch, Volumes};
use crate::model::limits;
use crate::service::OwnershipError;
use crate::{seam, store};

/// Interval between two checks whether another daemon's helper has ended.
const POLL: Duration = Duration::from_millis(100);

impl Ownership {
    /// Whether the newest epoch on the engine is from the last start with this state dir.
    pub(super) fn is_from_this_state_dir(&self, newest: &Epoch, before: &store::Identity) -> bool {
        let mut owners = before.epoch.as_deref().unwrap_or_default().split(' ');
        newest.holder == self.holder && owners.any(|owner| owner == newest.owner)
    }

    /// Waits for [`limits::OTHER_DAEMON_WAIT`] until no disks' helper of another daemon runs. A helper ends with its daemon,
    /// so a helper that still runs means that its daemon runs, too.
    pub(super) async fn ensure_no_other_daemon(&self) -> Result<(), Error> {
        let deadline = Instant::now() + limits::OTHER_DAEMON_WAIT;
        while self.engine.disks_helper_runs().await? {
            if Instant::now() > deadline {
                return Err(OwnershipError::AnotherDaemon.into());
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Creates the next epoch. The store gets its owner first, so that the next start recognises the epoch even if this
    /// start is interrupted.
    pub(super) async fn claim_epoch(
        &self,
        volumes: &Volumes,
        identity: &mut store::Identity,
    ) -> Result<Epoch, Error> {
        let owner = random_id()?;
        let last = identity.epoch.take().unwrap_or_default();
        let last = last.split(' ').find(|owner| volumes.epochs.iter().any(|epoch| epoch.owner == **owner));
        identity.epoch = Some([last.unwrap_or_default(), &owner].join(" "));
        self.store.set_identity(identity).await?;
        let newest = volumes.newest().map_or(0, |newest| newest.number);
        let mut number = newest.max(identity.epoch_number);
        for _ in 0..limits::EPOCH_TRIES {
            number += 1;
            let epoch = Epoch { number, owner: owner.clone(), holder: self.holder.clone() };
            self.engine.make_epoch(&epoch).await?;
            seam::at("epoch.act");
            let now = self.engine.volumes().await?;
            match now.newest() {
                Some(newest) if *newest == epoch => {
                    self.remove_epochs_before(&now, number).await;
                    identity.epoch = Some(owner);
                    identity.epoch_number = number;
                    self.store.set_identity(identity).await?;
                    return Ok(epoch);
                }
                Some(newest) => number = newest.number.max(number),
                None => {}
            }
        }
        Err(OwnershipError::AnotherDaemon.into())
    }

    async fn remove_epochs_before(&self, volumes: &Volumes, number: u64) {
        for epoch in volumes.epochs.iter().filter(|epoch| epoch.number < number) {
            if let Err(error) = self.engine.remove_epoch(epoch.number).await {
                warn!(
                    epoch = epoch.number,
                    error = &error as &dyn std::error::Error,
                    "could not remove an old epoch"
                );
            }
        }
    }
}
