//! A few disks created in advance, so that creating a sandbox does not wait for one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use super::Disks;
use crate::Error;
use sandboxd_model::Disk;

/// Number of disks that are kept ready.
const READY: usize = 2;

/// Pause before a disk that was taken is replaced, so that creating a sandbox does not compete with it.
const PAUSE: Duration = Duration::from_millis(500);

/// Pause after a disk could not be created.
const RETRY: Duration = Duration::from_secs(30);

/// Disks of one size, created in advance by a task that ends with the pool.
#[derive(Debug)]
pub struct DiskPool {
    disks: Disks,
    mib: u32,
    stock: Arc<Stock>,
    _filling: DropGuard,
}

#[derive(Debug, Default)]
struct Stock {
    ready: Mutex<VecDeque<Disk>>,
    taken: Notify,
}

impl DiskPool {
    /// Starts to create disks of `mib` MiB. Disks of an earlier pool have no owner and must be removed.
    pub fn new(disks: Disks, mib: u32) -> Self {
        let stock = Arc::new(Stock::default());
        let end = CancellationToken::new();
        let filling = end.clone().drop_guard();
        let fill = Arc::clone(&stock).fill(disks.clone(), mib);
        tokio::spawn(async move { end.run_until_cancelled(fill).await });
        Self { disks, mib, stock, _filling: filling }
    }

    /// Takes a disk of `mib` MiB: one that is ready, or a new one.
    pub async fn take(&self, mib: u32) -> Result<Disk, Error> {
        let ready = if mib == self.mib { self.stock.lock().pop_front() } else { None };
        match ready {
            Some(disk) => {
                self.stock.taken.notify_one();
                Ok(disk)
            }
            None => self.disks.make(mib).await,
        }
    }

    /// Names of the disks that are ready, which no sweep may remove.
    pub fn names(&self) -> Vec<String> {
        self.stock.lock().iter().map(|disk| disk.name().to_owned()).collect()
    }
}

impl Stock {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Disk>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fill(self: Arc<Self>, disks: Disks, mib: u32) {
        loop {
            while self.lock().len() < READY {
                match disks.make(mib).await {
                    Ok(disk) => self.lock().push_back(disk),
                    Err(error) => {
                        warn!(
                            error = &error as &dyn std::error::Error,
                            "no disk could be created in advance; each new sandbox creates its own"
                        );
                        sleep(RETRY).await;
                    }
                }
            }
            self.taken.notified().await;
            sleep(PAUSE).await;
        }
    }
}
