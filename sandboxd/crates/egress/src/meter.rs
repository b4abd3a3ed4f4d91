//! Traffic of connections, and their idle time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Budget;
use sandboxd_metrics::{Direction, Metrics};

/// Total traffic of all connections of one sandbox.
#[derive(Debug)]
pub struct Tally {
    metrics: Arc<Metrics>,
    bytes: AtomicU64,
    max: Option<u64>,
    /// Cancelled when the maximum is exceeded.
    over: CancellationToken,
    /// Of this sandbox and others.
    budget: Arc<Budget>,
}

impl Tally {
    /// Starts at zero, with this maximum, and with a budget that it shares with others.
    pub fn new(metrics: Arc<Metrics>, max: Option<u64>, budget: Arc<Budget>) -> Self {
        Self { metrics, bytes: AtomicU64::new(0), max, over: CancellationToken::new(), budget }
    }

    /// Whether the maximum is exceeded, or the budget is spent.
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled() || self.budget.is_spent()
    }

    fn add(&self, direction: Direction, bytes: u64) {
        self.metrics.egress_moved(direction, bytes);
        self.budget.add(bytes);
        let all = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if self.max.is_some_and(|max| all > max) {
            self.over.cancel();
        }
    }
}

/// Traffic of one connection.
#[derive(Debug)]
pub struct Meter {
    tally: Arc<Tally>,
    began: Instant,
    /// Time of the last traffic, in milliseconds after `began`.
    moved_at: AtomicU64,
    max_idle: Duration,
}

impl Meter {
    /// Creates the meter of a new connection that may be idle for this long.
    pub fn new(tally: Arc<Tally>, max_idle: Duration) -> Self {
        Self { tally, began: Instant::now(), moved_at: AtomicU64::new(0), max_idle }
    }

    /// Counts bytes that have moved.
    pub fn moved(&self, direction: Direction, bytes: usize) {
        self.moved_at.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.tally.add(direction, bytes as u64);
    }

    /// Returns when no bytes have moved for too long.
    pub(super) async fn silent(&self) {
        loop {
            let moved_at = Duration::from_millis(self.moved_at.load(Ordering::Relaxed));
            let silent_for = self.began.elapsed().saturating_sub(moved_at);
            match self.max_idle.checked_sub(silent_for) {
                Some(left) if !left.is_zero() => sleep(left).await,
                _ => return,
            }
        }
    }

    /// Returns when the sandbox has exceeded its maximum traffic, or the budget is spent.
    pub async fn over(&self) {
        tokio::select! {
            () = self.tally.over.cancelled() => {}
            () = self.tally.budget.spent() => {}
        }
    }
}
