//! Free space in the file system that holds all workspaces' disks.
//!
//! A disk is a sparse image, so all disks together may promise more space than exists. If the file system is full, the
//! kernel cannot flush what a sandbox has written: the workspace becomes read-only and its newest files are lost. So
//! the API rejects writes while there is still a margin, and near the margin it syncs each file before it answers.
//! Commands write to the disk directly, so they are not limited by the margin.
//!
//! Reserving each image's blocks would need no margin. But parked workspaces are kept for a day, and most use a
//! fraction of their size: reserved, ten of them would fill the engine's disk.

use std::future::Future;

use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::free_space::is_short;
use super::{Error, Storage};
use crate::engine::Space;
use crate::model::limits;

impl Storage {
    /// Space that disks can grow into, as last measured. `None` if workspaces have no disks of their own.
    pub(in crate::service) fn space(&self) -> Option<Space> {
        self.free.get()
    }

    /// Whether writes to workspaces are rejected because the engine's disk is nearly full.
    pub(in crate::service) fn is_space_short(&self) -> bool {
        self.space().is_some_and(is_short)
    }

    /// Measures the free space.
    pub(super) async fn measure_space(&self) -> Result<Option<Space>, Error> {
        let Some(disks) = self.disks() else { return Ok(None) };
        let space = disks.space().await?;
        self.free.set(space);
        Ok(Some(space))
    }

    /// Rejects a write of `bytes` if there is no space for it. Far from the margin, the last measurement of
    /// [`Self::watch_space`] counts, so that a write does not wait for the disks' helper. The last measurement also
    /// counts if the engine or the helper is unavailable: writing files needs neither.
    pub(in crate::service) async fn check_space(&self, bytes: u64) -> Result<(), Error> {
        if self.free.is_ample_for(bytes) {
            return Ok(());
        }
        let measured = timeout(limits::SPACE_CHECK_WAIT, self.measure_space()).await;
        let space = measured.ok().and_then(Result::ok).unwrap_or_else(|| self.space());
        match space {
            Some(space) if space.free_bytes < limits::MIN_WRITE_SPACE_BYTES.saturating_add(bytes) => {
                Err(Error::DiskShort { free_bytes: space.free_bytes })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether free space is near the margin, so that files are synced before a write is acknowledged.
    pub(in crate::service) fn is_space_tight(&self) -> bool {
        self.space().is_some_and(|space| space.free_bytes < limits::TIGHT_SPACE_BYTES)
    }

    /// Runs a write of unknown length. Cancels it with an error when space becomes short.
    pub(in crate::service) async fn while_space_lasts<T, E: From<Error>>(
        &self,
        write: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        tokio::select! {
            biased;
            written = write => written,
            short = self.until_space_is_short() => Err(short.into()),
        }
    }

    async fn until_space_is_short(&self) -> Error {
        loop {
            sleep(limits::SPACE_CHECK_INTERVAL).await;
            if let Err(short) = self.check_space(0).await {
                return short;
            }
        }
    }

    /// Measures the free space periodically.
    pub(in crate::service) async fn watch_space(&self) {
        let mut ticks = interval(limits::SPACE_CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // While the helper is unavailable, the last measurement is kept, and no new helper is requested every second.
            if self.measure_space().await.is_err() {
                sleep(limits::SPACE_CHECK_RETRY).await;
            }
        }
    }
}
