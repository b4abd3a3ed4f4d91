//! Room in the file system that all workspaces' disks are in.
//!
//! A disk is a sparse image, so all disks together may promise more than there is. When the file system is full, the kernel
//! cannot write what a sandbox was told is written: its workspace becomes read-only and its newest files are lost. So
//! writes through the API are refused while there is still a margin, and near the margin a file is on the disk before its
//! writer hears of it. Commands are not held back: they write without asking.
//!
//! To reserve each image's blocks instead would need no margin. But parked workspaces are kept for a day, and ten of them
//! take a fraction of their size: reserved, they would fill the engine's disk by themselves.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{info, warn};

use super::{Error, Service, UploadFailed};
use crate::engine::Space;
use crate::model::limits;

/// What was last known of the room.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<Option<Measurement>>);

#[derive(Debug, Clone, Copy)]
struct Measurement {
    space: Space,
    at: Instant,
}

impl Room {
    fn get(&self) -> Option<Space> {
        self.measurement().map(|measurement| measurement.space)
    }

    fn measurement(&self) -> Option<Measurement> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a recent measurement shows far more room than a write of `bytes` needs, so that a new one can be skipped.
    fn is_ample_for(&self, bytes: u64) -> bool {
        self.measurement().is_some_and(|last| {
            last.at.elapsed() < 2 * limits::ROOM_LOOK
                && last.space.free_bytes >= limits::TIGHT_ROOM_BYTES.saturating_add(bytes)
        })
    }

    /// Takes note of the room, and logs when it becomes short or is enough again.
    fn set(&self, space: Space) {
        let measurement = Measurement { space, at: Instant::now() };
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(measurement);
        let (was_short, is_short) = (before.is_some_and(|before| is_short(before.space)), is_short(space));
        let free_bytes = space.free_bytes;
        if is_short && !was_short {
            warn!(free_bytes, "the engine's disk is nearly full; writes to workspaces are refused");
        } else if was_short && !is_short {
            info!(free_bytes, "the engine's disk has room again");
        }
    }
}

fn is_short(space: Space) -> bool {
    space.free_bytes < limits::MIN_WRITE_ROOM_BYTES
}

impl Service {
    /// Room for disks to grow into, as last known. None where workspaces have no disks of their own.
    pub fn room(&self) -> Option<Space> {
        self.room.get()
    }

    /// Whether writes to workspaces are refused because the engine's disk is nearly full.
    pub fn is_room_short(&self) -> bool {
        self.room().is_some_and(is_short)
    }

    /// Looks how much room there is now.
    pub(super) async fn measure_room(&self) -> Result<Option<Space>, Error> {
        let Some(disks) = self.disks() else { return Ok(None) };
        let space = disks.space().await?;
        self.room.set(space);
        Ok(Some(space))
    }

    /// Refuses a write of `bytes` for which there is no room. Far from the margin the last measurement of `watch_room` counts,
    /// so that a write does not wait for the disks' helper. Where the room cannot be measured at once, because the engine or
    /// the disks' helper is away, what was last known counts: files are served without either.
    pub(super) async fn check_room(&self, bytes: u64) -> Result<(), Error> {
        if self.room.is_ample_for(bytes) {
            return Ok(());
        }
        let measured = timeout(limits::ROOM_ANSWER, self.measure_room()).await;
        let space = measured.ok().and_then(Result::ok).unwrap_or_else(|| self.room());
        match space {
            Some(space) if space.free_bytes < limits::MIN_WRITE_ROOM_BYTES.saturating_add(bytes) => {
                Err(Error::DiskShort { free_bytes: space.free_bytes })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether what is written should be on the disk before its writer hears of it.
    pub(super) fn is_room_tight(&self) -> bool {
        self.room().is_some_and(|space| space.free_bytes < limits::TIGHT_ROOM_BYTES)
    }

    /// Does a write of unknown length, for as long as there is room for it.
    pub(super) async fn while_there_is_room<T, E>(
        &self,
        write: impl Future<Output = Result<T, UploadFailed<E>>>,
    ) -> Result<T, UploadFailed<E>> {
        tokio::select! {
            biased;
            written = write => written,
            short = self.until_room_is_short() => Err(short.into()),
        }
    }

    async fn until_room_is_short(&self) -> Error {
        loop {
            sleep(limits::ROOM_LOOK).await;
            if let Err(short) = self.check_room(0).await {
                return short;
            }
        }
    }

    /// Keeps what is known of the room up to date.
    pub(super) async fn watch_room(&self) {
        let mut ticks = interval(limits::ROOM_LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // While the helper is away nothing is concluded, and the engine is not asked for another every second.
            if self.measure_room().await.is_err() {
                sleep(limits::ROOM_RETRY).await;
            }
        }
    }
}
