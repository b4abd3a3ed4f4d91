//! The workspace for the calls about files, with the threads and permits that they share.
//!
//! Each call of [`crate::files`] runs on a blocking thread and holds it only while it works. Between two pieces of a
//! file the thread is free for other calls. Operations that hold a thread for longer share a small number of permits.
//! So do operations that hold a thread while they wait for their caller.

use std::sync::Arc;

use agent_protocol::fault::{Kind, to_status};
use agent_protocol::v1;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tonic::Status;

use super::read_root::ReadRoot;
use crate::files::path::FilePath;
use crate::files::workspace::Workspace;
use crate::limits::{
    HEAVY_TURN, MAX_HEAVY_CALLS, MAX_PACKS, MAX_READS, MAX_SNAPSHOTS, MAX_UNPACKS, MAX_WATCHES,
};

/// The workspace, and the permits for expensive operations.
#[derive(Debug, Clone)]
pub(crate) struct FileService {
    pub(super) workspace: Arc<Workspace>,
    /// The directory with the output files of commands, which callers may read.
    outputs: Option<Arc<Workspace>>,
    heavy: Arc<Semaphore>,
    packs: Arc<Semaphore>,
    unpacks: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    snapshots: Arc<Semaphore>,
}

impl FileService {
    pub(crate) fn new(workspace: Workspace, outputs: Option<Workspace>) -> Self {
        let permits = |max| Arc::new(Semaphore::new(max));
        Self {
            workspace: Arc::new(workspace),
            outputs: outputs.map(Arc::new),
            heavy: permits(MAX_HEAVY_CALLS),
            packs: permits(MAX_PACKS),
            unpacks: permits(MAX_UNPACKS),
            reads: permits(MAX_READS),
            watches: permits(MAX_WATCHES),
            snapshots: permits(MAX_SNAPSHOTS),
        }
    }

    pub(crate) fn disk_used_bytes(&self) -> u64 {
        self.workspace.disk_used_bytes().unwrap_or(0)
    }

    /// Runs an operation on the workspace on a blocking thread.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Arc<Workspace>) -> Result<T, Kind> + Send + 'static,
    ) -> Result<T, Status> {
        let workspace = Arc::clone(&self.workspace);
        blocking(move || run(&workspace)).await
    }

    /// Runs an operation that changes nothing on a blocking thread, on the directory that `path` is in.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        path: Bytes,
        run: impl FnOnce(&ReadRoot, FilePath) -> Result<T, Kind> + Send + 'static,
    ) -> Result<T, Status> {
        let root = match &self.outputs {
            Some(outputs) if outputs.contains(&path) => ReadRoot::outside_workspace(outputs),
            _ => ReadRoot::workspace(&self.workspace),
        };
        blocking(move || run(&root, root.workspace.path(&path)?)).await
    }

    pub(super) async fn heavy_permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        acquire(&self.heavy, "edits and searches at once", MAX_HEAVY_CALLS).await
    }

    pub(super) async fn read_permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        acquire(&self.reads, "large files read at once", MAX_READS).await
    }

    pub(super) async fn pack_permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        acquire(&self.packs, "archives packed at once", MAX_PACKS).await
    }

    pub(super) async fn unpack_permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        acquire(&self.unpacks, "archives unpacked at once", MAX_UNPACKS).await
    }

    pub(super) async fn snapshot_permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        acquire(&self.snapshots, "snapshots and restores at once", MAX_SNAPSHOTS).await
    }

    /// Fails at once if all are in use.
    pub(super) fn watch_permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        let permit = Arc::clone(&self.watches).try_acquire_owned();
        permit.map_err(|_| limit_reached("watches at once", MAX_WATCHES))
    }
}

/// Acquires one of `max` permits. Fails if none is released in time.
async fn acquire(of: &Arc<Semaphore>, limit: &str, max: usize) -> Result<OwnedSemaphorePermit, Status> {
    match timeout(HEAVY_TURN, Arc::clone(of).acquire_owned()).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) | Err(_) => Err(limit_reached(limit, max)),
    }
}

/// Runs an operation on a blocking thread.
pub(super) async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, Kind> + Send + 'static,
) -> Result<T, Status> {
    join(spawn_blocking(run)).await
}

async fn join<T>(task: JoinHandle<Result<T, Kind>>) -> Result<T, Status> {
    task.await.map_err(|_| failed_task())?.map_err(to_status)
}

/// The error for a task that panicked. Its message is not passed on, because it may contain a path.
pub(super) fn failed_task() -> Status {
    Status::internal("a task of the agent failed")
}

fn limit_reached(limit: &str, value: usize) -> Status {
    to_status(Kind::LimitReached(v1::LimitReached { limit: limit.into(), value: value as u64 }))
}
