//! Published ports.

use std::collections::BTreeMap;
use std::time::Instant;

use sandbox_api::SandboxId;
use tokio::sync::{Mutex, OnceCell};
use tokio_util::sync::DropGuard;

use crate::egress::BlockedPort;
use crate::engine::Published;
use crate::model::limits;

/// A sandbox and one of its ports.
pub(super) type Key = (SandboxId, u16);

/// Published ports of all sandboxes.
#[derive(Debug, Default)]
pub(super) struct Publications {
    /// Locked while a port is published, so that concurrent requests get the same one.
    pub(super) published: Mutex<BTreeMap<Key, Publication>>,
    pub(super) image: OnceCell<String>,
}

/// A published port.
#[derive(Debug)]
pub(super) struct Publication {
    pub(super) at: Published,
    /// Number of consecutive restarts, each soon after the one before.
    pub(super) restarts: u32,
    pub(super) created_at: Instant,
    /// Closes the socket when dropped.
    pub(super) _listener: DropGuard,
    /// Keeps sandboxes from connecting to the host port.
    pub(super) _shut: BlockedPort,
}

impl Publication {
    /// Whether its publisher, if it died now, would have died soon after its creation.
    pub(super) fn died_soon(&self) -> bool {
        self.created_at.elapsed() < limits::PUBLISHER_LIFE
    }
}
