//! The slot of one session: its users, its last use, and the state of its opening.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Error;
use crate::provider::SandboxId;
use crate::seed::SeedState;

/// State of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum SessionState {
    /// The session is closed. The next use opens it.
    Closed,
    /// The sandbox is being created or woken.
    Opening,
    /// The sandbox is ready, and its seed is not.
    Seeding {
        /// State of the seed.
        seed: SeedState,
    },
    /// The session can be used.
    Ready,
    /// The session could not be opened. The next use tries again.
    Failed {
        /// Reason, human-readable.
        reason: String,
    },
}

#[derive(Debug)]
pub(super) struct Slot {
    opened: watch::Sender<Opening>,
    /// Cancelled when the session is deleted, which also stops the opening.
    deleted: CancellationToken,
    /// Number of users.
    pins: AtomicUsize,
    /// Time of the last use in milliseconds since [`Slot::began`].
    last_used_ms: AtomicU64,
    began: Instant,
}

#[derive(Debug, Clone)]
pub(super) enum Opening {
    Under(SessionState),
    Ready(SandboxId),
    Failed(Error),
}

impl Slot {
    /// `began` is the same for all slots, so that their times can be compared.
    pub(super) fn new(began: Instant) -> Self {
        let slot = Self {
            opened: watch::Sender::new(Opening::Under(SessionState::Opening)),
            deleted: CancellationToken::new(),
            pins: AtomicUsize::new(0),
            last_used_ms: AtomicU64::new(0),
            began,
        };
        slot.touch();
        slot
    }

    pub(super) fn report(&self, opening: Opening) {
        self.opened.send_replace(opening);
    }

    pub(super) fn state(&self) -> SessionState {
        match &*self.opened.borrow() {
            Opening::Under(state) => state.clone(),
            Opening::Ready(_) => SessionState::Ready,
            Opening::Failed(error) => SessionState::Failed { reason: error.to_string() },
        }
    }

    pub(super) fn seed_state(&self) -> SeedState {
        match &*self.opened.borrow() {
            Opening::Under(SessionState::Seeding { seed }) => seed.clone(),
            Opening::Ready(_) => SeedState::Done,
            Opening::Failed(Error::Seed(error)) => SeedState::Failed { reason: error.to_string() },
            Opening::Under(_) | Opening::Failed(_) => SeedState::Pending,
        }
    }

    pub(super) fn sandbox(&self) -> Option<SandboxId> {
        match &*self.opened.borrow() {
            Opening::Ready(sandbox) => Some(sandbox.clone()),
            Opening::Under(_) | Opening::Failed(_) => None,
        }
    }

    /// Waits until the session is open or has failed, and reports each state in between.
    pub(super) async fn wait(&self, report: impl Fn(&SessionState)) -> Result<SandboxId, Error> {
        let mut opened = self.opened.subscribe();
        loop {
            match &*opened.borrow_and_update() {
                Opening::Ready(sandbox) => return Ok(sandbox.clone()),
                Opening::Failed(error) => return Err(error.clone()),
                Opening::Under(state) => report(state),
            }
            if opened.changed().await.is_err() {
                return Err(Error::Stopped);
            }
        }
    }

    /// Tells the opening task to stop.
    pub(super) fn delete(&self) {
        self.deleted.cancel();
    }

    pub(super) async fn is_deleted(&self) {
        self.deleted.cancelled().await;
    }

    pub(super) fn is_opening(&self) -> bool {
        matches!(&*self.opened.borrow(), Opening::Under(_))
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(&*self.opened.borrow(), Opening::Failed(_))
    }

    /// Whether the session is neither in use nor being opened.
    pub(super) fn is_idle(&self) -> bool {
        self.pins.load(Ordering::Acquire) == 0 && !self.is_opening()
    }

    pub(super) fn last_used_ms(&self) -> u64 {
        self.last_used_ms.load(Ordering::Relaxed)
    }

    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn touch(&self) {
        self.last_used_ms.store(self.now_ms(), Ordering::Relaxed);
    }
}

/// A slot in use.
#[derive(Debug)]
pub(super) struct Pinned(Arc<Slot>);

impl Pinned {
    /// Created only under the lock of the map. No session can be released between lookup and use.
    pub(super) fn new(slot: &Arc<Slot>) -> Self {
        slot.pins.fetch_add(1, Ordering::Relaxed);
        slot.touch();
        Self(Arc::clone(slot))
    }

    pub(super) fn slot(&self) -> &Slot {
        &self.0
    }

    /// Returns the slot without marking it as used.
    pub(super) fn unpinned(&self) -> Arc<Slot> {
        Arc::clone(&self.0)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.0.touch();
        self.0.pins.fetch_sub(1, Ordering::Release);
    }
}
