//! The epochs on the engine: one for each start, so that of two daemons with one key only the newer acts.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{Error, Ownership};
use crate::engine::{Epoch, Volumes};
use crate::model::limits;
use crate::{seam, store};

/// Bytes of a random word.
const WORD_BYTES: usize = 16;

/// How often it is asked again whether another daemon's helper has ended.
const POLL: Duration = Duration::from_millis(100);

impl Ownership {
    /// Whether the last start on the engine was the last one of this state dir.
    pub(super) fn is_ours(&self, newest: &Epoch, before: &store::Identity) -> bool {
        let mut words = before.epoch.as_deref().unwrap_or_default().split(' ');
        newest.holder == self.holder && words.any(|word| word == newest.owner)
    }

    /// Refuses to start while the disks' helper of another daemon runs: it ends with its daemon.
    pub(super) async fn refuse_beside_another(&self) -> Result<(), Error> {
        let deadline = Instant::now() + limits::OTHER_DAEMON;
        while self.engine.disks_helper_runs().await? {
            if Instant::now() > deadline {
                return Err(Error::AnotherDaemon);
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Makes the next epoch. The word is written down first, so that a start that is cut off knows its own.
    pub(super) async fn claim_epoch(
        &self,
        volumes: &Volumes,
        identity: &mut store::Identity,
    ) -> Result<Epoch, Error> {
        let owner = random_word()?;
        let last = identity.epoch.take().unwrap_or_default();
        let last = last.split(' ').find(|word| volumes.epochs.iter().any(|epoch| epoch.owner == **word));
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
        Err(Error::AnotherDaemon)
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

/// A word that nobody else has.
pub(super) fn random_word() -> Result<String, Error> {
    let mut bytes = [0; WORD_BYTES];
    getrandom::fill(&mut bytes).map_err(|source| Error::Randomness { source })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
