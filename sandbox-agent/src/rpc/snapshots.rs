//! Snapshots: decode, call, encode.

use std::path::Path;
use std::sync::Arc;

use agent_protocol::fault::{Kind, to_status};
use agent_protocol::v1::snapshots_server::Snapshots;
use agent_protocol::v1::{self, RestorePart, SnapshotPart};
use cap_std::fs::OpenOptions;
use futures::stream::{self, StreamExt};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tonic::{Request, Response, Status, Streaming};

use super::file_service::failed_task;
use super::service::{Events, Reply, Service};
use crate::files::path::invalid;
use crate::files::staging::{STAT_CACHE, StagingHandle};
use crate::files::workspace::Workspace;
use crate::limits::RESTORE_SILENCE;
use crate::snapshots::{self, Pause, Restore, Sink, Source, Stop};

/// Messages between the walk and the connection.
const PART_QUEUE: usize = 2;

/// Maximum length of a snapshot's id in bytes.
const MAX_ID_BYTES: usize = 64;

#[tonic::async_trait]
impl Snapshots for Service {
    type MakeStream = Events<SnapshotPart>;

    async fn make(&self, request: Request<v1::MakeSnapshotRequest>) -> Reply<Self::MakeStream> {
        let v1::MakeSnapshotRequest { id, parent, pause } = request.into_inner();
        check_id("id", &id).map_err(to_status)?;
        if !parent.is_empty() {
            check_id("parent", &parent).map_err(to_status)?;
        }
        let permit = self.files.snapshot_permit().await?;
        let workspace = Arc::clone(&self.files.workspace);
        let pause = pause.then(Pause::begin);
        let (sender, parts) = mpsc::channel(PART_QUEUE);
        let making = spawn_blocking(move || {
            let _permit = permit;
            let sink = Sink::new(sender)?;
            snapshots::make(source(&workspace, &id, &parent)?, pause.as_ref(), sink)
        });
        Ok(Response::new(sent(parts, making)))
    }

    async fn restore(&self, request: Request<Streaming<RestorePart>>) -> Reply<v1::RestoreReply> {
        let mut parts = request.into_inner();
        let permit = self.files.snapshot_permit().await?;
        let change = self.files.workspace.change().await;
        let workspace = Arc::clone(&self.files.workspace);
        let (sender, received) = mpsc::channel(PART_QUEUE);
        let restoring = spawn_blocking(move || {
            let _held = (permit, change);
            restore(&workspace, received)
        });
        let sending = async {
            while let Ok(Some(part)) = timeout(RESTORE_SILENCE, parts.next()).await {
                // The thread has stopped at an error.
                let Ok(part) = part else { return };
                if sender.send(part).await.is_err() {
                    return;
                }
            }
        };
        sending.await;
        drop(sender);
        let reply = restoring.await.map_err(|_| failed_task())?;
        reply.map(Response::new).map_err(status_of)
    }
}

/// The messages of a snapshot, then its error if it has failed.
fn sent(parts: mpsc::Receiver<SnapshotPart>, making: JoinHandle<Result<(), Stop>>) -> Events<SnapshotPart> {
    let messages = stream::unfold(parts, |mut parts| async move {
        let part = parts.recv().await?;
        Some((Ok(part), parts))
    });
    let end = stream::once(making).filter_map(|made| async {
        match made {
            Ok(Ok(())) => None,
            Ok(Err(stop)) => Some(Err(status_of(stop))),
            Err(_) => Some(Err(failed_task())),
        }
    });
    messages.chain(end).boxed()
}

fn status_of(stop: Stop) -> Status {
    match stop {
        Stop::Fault(kind) => to_status(kind),
        Stop::CallerLeft => Status::cancelled("the caller has left"),
    }
}

fn check_id(field: &str, id: &str) -> Result<(), Kind> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_valid) {
        true => Ok(()),
        false => Err(invalid(field, "must be 1 to 64 letters, digits, underscores and hyphens")),
    }
}

/// Opens the files and the cache of a snapshot. Removes caches that are no longer needed. A cache that cannot be opened is
/// not used.
fn source(workspace: &Workspace, id: &str, parent: &str) -> Result<Source, Stop> {
    let volume = workspace.open_volume()?;
    let Ok(staging) = workspace.open_staging() else {
        return Ok(Source { volume, staging: None, known: None, cache: None });
    };
    let known = cache_name(parent);
    remove_caches_except(&staging, &known);
    let known = staging.open(&known).ok().map(cap_std::fs::File::into_std);
    let mut create = OpenOptions::new();
    create.write(true).create_new(true);
    let cache = staging.open_with(cache_name(id), &create).ok().map(cap_std::fs::File::into_std);
    Ok(Source { volume, staging: Some(staging), known, cache })
}

fn cache_name(id: &str) -> String {
    format!("{STAT_CACHE}{id}")
}

fn remove_caches_except(staging: &StagingHandle, kept: &str) {
    let Ok(entries) = staging.entries() else { return };
    for name in entries.flatten().map(|entry| entry.file_name()) {
        if name.to_str().is_some_and(|name| name.starts_with(STAT_CACHE) && name != kept) {
            staging.discard(Path::new(&name));
        }
    }
}

fn restore(workspace: &Workspace, mut parts: mpsc::Receiver<RestorePart>) -> Result<v1::RestoreReply, Stop> {
    let mut restore = Restore::new(workspace.open_volume()?, workspace.open_staging()?);
    while let Some(part) = parts.blocking_recv() {
        for step in part.steps.into_iter().filter_map(|step| step.step) {
            if let Some(reply) = restore.step(step)? {
                return Ok(reply);
            }
        }
    }
    Err(Stop::Fault(invalid("steps", "ended in the middle")))
}
