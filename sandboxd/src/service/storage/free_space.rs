//! The last measurement of the free space.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tracing::{info, warn};

use crate::engine::Space;
use crate::model::limits;

/// The last measurement.
#[derive(Debug, Default)]
pub(super) struct FreeSpace(Mutex<Option<Measurement>>);

#[derive(Debug, Clone, Copy)]
struct Measurement {
    space: Space,
    at: Instant,
}

impl FreeSpace {
    pub(super) fn get(&self) -> Option<Space> {
        self.measurement().map(|measurement| measurement.space)
    }

    fn measurement(&self) -> Option<Measurement> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a recent measurement shows far more space than a write of `bytes` needs, so that a new one can be
    /// skipped.
    pub(super) fn is_ample_for(&self, bytes: u64) -> bool {
        self.measurement().is_some_and(|last| {
            last.at.elapsed() < 2 * limits::SPACE_CHECK_INTERVAL
                && last.space.free_bytes >= limits::TIGHT_SPACE_BYTES.saturating_add(bytes)
        })
    }

    /// Records a measurement, and logs when space becomes short or is sufficient again.
    pub(super) fn set(&self, space: Space) {
        let measurement = Measurement { space, at: Instant::now() };
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(measurement);
        let (was_short, is_short) = (before.is_some_and(|before| is_short(before.space)), is_short(space));
        let free_bytes = space.free_bytes;
        if is_short && !was_short {
            warn!(free_bytes, "the engine's disk is nearly full; writes to workspaces are rejected");
        } else if was_short && !is_short {
            info!(free_bytes, "the engine's disk has enough space again");
        }
    }
}

pub(super) fn is_short(space: Space) -> bool {
    space.free_bytes < limits::MIN_WRITE_SPACE_BYTES
}
