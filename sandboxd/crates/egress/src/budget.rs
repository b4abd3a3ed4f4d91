//! Bytes that several sandboxes share.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts the bytes of all connections that share it, in both directions, up to a maximum that may change.
#[derive(Debug)]
pub struct Budget {
    used: AtomicU64,
    /// The largest number means unlimited.
    max: AtomicU64,
    /// Notified when it may be spent.
    changed: Notify,
}

impl Budget {
    /// A budget of `max` bytes. `None` means unlimited.
    pub fn new(max: Option<u64>) -> Self {
        Self { used: AtomicU64::new(0), max: AtomicU64::new(max.unwrap_or(u64::MAX)), changed: Notify::new() }
    }

    /// Changes the maximum.
    pub fn set_max(&self, max: Option<u64>) {
        self.max.store(max.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Counts bytes.
    pub fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        if self.is_spent() {
            self.changed.notify_waiters();
        }
    }

    /// Bytes since the last restart.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Continues from `used`. Returns the bytes that were counted so far.
    pub fn restart(&self, used: u64) -> u64 {
        self.used.swap(used, Ordering::Relaxed)
    }

    /// Whether no more bytes may follow.
    pub fn is_spent(&self) -> bool {
        self.used() >= self.max.load(Ordering::Relaxed)
    }

    /// Returns when no more bytes may follow.
    pub async fn spent(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Before the check, so that no change is missed.
            changed.as_mut().enable();
            if self.is_spent() {
                return;
            }
            changed.await;
        }
    }
}
