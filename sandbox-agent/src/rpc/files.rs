//! The workspace's files: decode, call, encode.
//!
//! Each call of [`crate::files`] runs on a blocking thread and holds it only while it works. Between two pieces of a
//! file the thread is free for other calls. Operations that hold a thread for longer share a small number of permits.
//! So do operations that hold a thread while they wait for their caller.

use std::sync::Arc;

use agent_protocol::fault::{Kind, to_status};
use agent_protocol::v1::files_server::Files;
use agent_protocol::v1::{self, Change};
use bytes::{Buf, Bytes};
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tonic::{Request, Response, Status, Streaming};

use super::messages::in_messages;
use super::{Events, Reply, Service, archive};
use crate::files::batch::Batch;
use crate::files::path::invalid;
use crate::files::workspace::Workspace;
use crate::limits::{
    HEAVY_TURN, MAX_HEAVY_CALLS, MAX_LIST_DEPTH, MAX_LIST_ENTRIES, MAX_PACKS, MAX_READS, MAX_UNPACKS,
    MAX_WATCHES, MESSAGE_BYTES,
};

/// The workspace, and the permits for expensive operations.
#[derive(Debug, Clone)]
pub(crate) struct FileService {
    workspace: Arc<Workspace>,
    heavy: Arc<Semaphore>,
    packs: Arc<Semaphore>,
    unpacks: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

impl FileService {
    pub(crate) fn new(workspace: Arc<Workspace>) -> Self {
        let places = |max| Arc::new(Semaphore::new(max));
        Self {
            workspace,
            heavy: places(MAX_HEAVY_CALLS),
            packs: places(MAX_PACKS),
            unpacks: places(MAX_UNPACKS),
            reads: places(MAX_READS),
            watches: places(MAX_WATCHES),
        }
    }

    pub(crate) fn disk_used_bytes(&self) -> u64 {
        self.workspace.disk_used_bytes().unwrap_or(0)
    }

    /// Runs an operation on the workspace on a blocking thread.
    async fn run<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Arc<Workspace>) -> Result<T, Kind> + Send + 'static,
    ) -> Result<T, Status> {
        let workspace = Arc::clone(&self.workspace);
        blocking(move || run(&workspace)).await
    }

    async fn heavy_permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        acquire(&self.heavy, "edits and searches at once", MAX_HEAVY_CALLS).await
    }
}

/// Acquires one of `max` permits. Fails if none is released in time.
async fn acquire(of: &Arc<Semaphore>, limit: &str, max: usize) -> Result<OwnedSemaphorePermit, Status> {
    match timeout(HEAVY_TURN, Arc::clone(of).acquire_owned()).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) | Err(_) => Err(limit_reached(limit, max)),
    }
}

#[tonic::async_trait]
impl Files for Service {
    type ReadStream = Events<v1::FileChunk>;
    type ListStream = Events<v1::Listed>;
    type EditStream = Events<v1::EditReply>;
    type PackStream = Events<v1::FileChunk>;
    type WatchStream = Events<v1::WatchEvents>;
    type GrepStream = Events<v1::GrepReply>;
    type GlobStream = Events<v1::GlobReply>;

    async fn write(&self, request: Request<Streaming<v1::FilePart>>) -> Reply<v1::WriteFilesReply> {
        let mut parts = request.into_inner();
        let mut batch = Batch::new(Arc::clone(&self.files.workspace));
        let mut part = next_part(&mut parts).await?;
        while !part.end {
            // The next part is received while this one is written. An error is returned without waiting for it.
            let mut adding = Box::pin(blocking(move || batch.add(part).map(|()| batch)));
            let next = tokio::select! {
                biased;
                added = &mut adding => Err(added?),
                next = next_part(&mut parts) => Ok(next?),
            };
            (batch, part) = match next {
                Ok(next) => (adding.await?, next),
                Err(added) => (added, next_part(&mut parts).await?),
            };
        }
        // Adding the last part and finishing run on one blocking thread.
        let change = self.files.workspace.change().await;
        let reply = blocking(move || batch.add(part).and_then(|()| batch.commit(&change))).await?;
        Ok(Response::new(reply))
    }

    async fn read(&self, request: Request<v1::ReadFileRequest>) -> Reply<Self::ReadStream> {
        let v1::ReadFileRequest { path, max_bytes, range } = request.into_inner();
        let opened = self.files.run(move |workspace| {
            let mut reading = workspace.read(workspace.path(&path)?, max_bytes, range)?;
            Ok((reading.next()?, reading))
        });
        let (first, reading) = opened.await?;
        if reading.is_over() {
            return Ok(Response::new(stream::iter(first.map(Ok)).boxed()));
        }
        let permit = acquire(&self.files.reads, "large files read at once", MAX_READS).await?;
        Ok(Response::new(pieces(first, (reading, permit), |(reading, _)| reading.next())))
    }

    async fn stat(&self, request: Request<v1::PathRef>) -> Reply<v1::FileInfo> {
        let path = request.into_inner().path;
        Ok(Response::new(self.files.run(move |workspace| workspace.stat(&workspace.path(&path)?)).await?))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Reply<Self::ListStream> {
        let v1::ListRequest { path, depth, limit, after } = request.into_inner();
        let listed = self.files.run(move |workspace| {
            let depth = in_range("depth", depth, MAX_LIST_DEPTH)?;
            let limit = in_range("limit", limit, MAX_LIST_ENTRIES)?;
            let after = (!after.is_empty()).then(|| workspace.path(&after)).transpose()?;
            workspace.list(&workspace.path(&path)?, depth, limit, after.map(|after| after.relative))
        });
        Ok(Response::new(stream::iter(listed.await?.into_iter().map(Ok)).boxed()))
    }

    async fn make_dir(&self, request: Request<v1::PathRef>) -> Reply<v1::MakeDirReply> {
        let path = request.into_inner().path;
        let created = self.files.run(move |workspace| workspace.make_dir(&workspace.path(&path)?)).await?;
        Ok(Response::new(v1::MakeDirReply { created }))
    }

    async fn r#move(&self, request: Request<v1::MoveRequest>) -> Reply<v1::MoveReply> {
        let v1::MoveRequest { from, to, overwrite } = request.into_inner();
        let change = self.files.workspace.change().await;
        let moved = self.files.run(move |workspace| {
            workspace.rename(&workspace.path(&from)?, &workspace.path(&to)?, overwrite, &change)
        });
        moved.await?;
        Ok(Response::new(v1::MoveReply {}))
    }

    async fn delete(&self, request: Request<v1::DeleteRequest>) -> Reply<v1::DeleteReply> {
        let v1::DeleteRequest { path, recursive, if_match } = request.into_inner();
        let change = match &if_match {
            Some(_) => Some(self.files.workspace.change().await),
            None => None,
        };
        let removed = self.files.run(move |workspace| {
            workspace.delete(&workspace.path(&path)?, recursive, if_match.as_deref(), change)
        });
        let removed = removed.await?;
        Ok(Response::new(v1::DeleteReply { removed }))
    }

    async fn edit(&self, request: Request<v1::EditRequest>) -> Reply<Self::EditStream> {
        let v1::EditRequest { path, edits } = request.into_inner();
        let heavy_permit = self.files.heavy_permit().await?;
        let change = self.files.workspace.change().await;
        let edited = self.files.run(move |workspace| {
            let _permit = heavy_permit;
            workspace.edit(&workspace.path(&path)?, &edits, &change)
        });
        let mut reply = edited.await?;
        let mut rest = std::mem::take(&mut reply.diff);
        reply.diff = rest.split_to(rest.len().min(MESSAGE_BYTES));
        let more = std::iter::from_fn(move || {
            let diff = rest.has_remaining().then(|| rest.split_to(rest.len().min(MESSAGE_BYTES)))?;
            Some(v1::EditReply { diff, ..v1::EditReply::default() })
        });
        Ok(Response::new(stream::iter(std::iter::once(reply).chain(more).map(Ok)).boxed()))
    }

    async fn pack(&self, request: Request<v1::PackRequest>) -> Reply<Self::PackStream> {
        let request = request.into_inner();
        let permit = acquire(&self.files.packs, "archives packed at once", MAX_PACKS).await?;
        let opened = self.files.run(move |workspace| {
            let mut packing = workspace.pack(&workspace.path(&request.path)?, request.compression())?;
            Ok((packing.next()?.map(chunk), packing))
        });
        let (first, packing) = opened.await?;
        Ok(Response::new(pieces(first, (packing, permit), |(packing, _)| Ok(packing.next()?.map(chunk)))))
    }

    async fn unpack(&self, request: Request<Streaming<v1::UnpackPart>>) -> Reply<v1::UnpackReply> {
        let mut parts = request.into_inner();
        let first = archive::next_part(&mut parts).await?;
        let permit = acquire(&self.files.unpacks, "archives unpacked at once", MAX_UNPACKS).await?;
        let (sender, received) = archive::channel();
        let path = first.path.clone();
        let unpacked = self.files.run(move |workspace| {
            // Held by the thread, because it may have a merge to finish after its caller has left.
            let _permit = permit;
            workspace.unpack(&workspace.path(&path)?, received)
        });
        let (sent, unpacked): (Result<(), Status>, _) = tokio::join!(sender.send_all(first, parts), unpacked);
        Ok(Response::new(unpacked.map_err(|status| sent.err().unwrap_or(status))?))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Reply<Self::WatchStream> {
        let v1::WatchRequest { path, recursive } = request.into_inner();
        let permit = Arc::clone(&self.files.watches).try_acquire_owned();
        let permit = permit.map_err(|_| limit_reached("watches at once", MAX_WATCHES))?;
        let begun = self.files.run(move |workspace| workspace.watch(&workspace.path(&path)?, recursive));
        let (watching, is_complete) = begun.await?;
        let change = |change: Change| v1::WatchEvent { change: change.into(), ..v1::WatchEvent::default() };
        let mut first = vec![change(Change::Ready)];
        first.extend((!is_complete).then(|| change(Change::Overflow)));
        let rest = stream::unfold((watching, permit), |(mut watching, permit)| async move {
            let events = watching.next().await?;
            Some((events, (watching, permit)))
        });
        let messages = stream::iter([first]).chain(rest).flat_map(|events| {
            stream::iter(in_messages(events, |event: &v1::WatchEvent| {
                event.path.len() + event.from.len() + 16
            }))
        });
        Ok(Response::new(messages.map(|events| Ok(v1::WatchEvents { events })).boxed()))
    }

    async fn grep(&self, request: Request<v1::GrepRequest>) -> Reply<Self::GrepStream> {
        let request = request.into_inner();
        let heavy_permit = self.files.heavy_permit().await?;
        let found = self.files.run(move |workspace| {
            let _permit = heavy_permit;
            workspace.grep(&workspace.path(&request.path)?, &request)
        });
        let found = found.await?;
        let (cut, files_searched) = (found.cut, found.files_searched);
        let messages = in_messages(found.matches, |found| found.path.len() + found.text.len() + 32);
        let messages =
            messages.into_iter().map(move |matches| Ok(v1::GrepReply { matches, cut, files_searched }));
        Ok(Response::new(stream::iter(messages).boxed()))
    }

    async fn glob(&self, request: Request<v1::GlobRequest>) -> Reply<Self::GlobStream> {
        let request = request.into_inner();
        let heavy_permit = self.files.heavy_permit().await?;
        let found = self.files.run(move |workspace| {
            let _permit = heavy_permit;
            workspace.glob(&workspace.path(&request.path)?, &request)
        });
        let found = found.await?;
        let cut = found.cut;
        let messages = in_messages(found.entries, |info| {
            info.path.len() + info.target.as_ref().map_or(0, Bytes::len) + 96
        });
        let messages = messages.into_iter().map(move |entries| Ok(v1::GlobReply { entries, cut }));
        Ok(Response::new(stream::iter(messages).boxed()))
    }
}

/// Returns the next part of a write. It is an error if the stream ends before the last part.
async fn next_part(parts: &mut Streaming<v1::FilePart>) -> Result<v1::FilePart, Status> {
    parts.try_next().await?.ok_or_else(|| to_status(cut_off("files")))
}

async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, Kind> + Send + 'static,
) -> Result<T, Status> {
    join(spawn_blocking(run)).await
}

async fn join<T>(task: JoinHandle<Result<T, Kind>>) -> Result<T, Status> {
    // The panic's message is not passed on, because it may contain a path.
    task.await.map_err(|_| Status::internal("a task of the agent failed"))?.map_err(to_status)
}

/// Streams `first` and then the items that `next` reads from `source`.
fn pieces<S: Send + 'static, T: Send + 'static>(
    first: Option<T>,
    source: S,
    next: impl Fn(&mut S) -> Result<Option<T>, Kind> + Copy + Send + 'static,
) -> Events<T> {
    let rest = stream::try_unfold(source, move |mut source| {
        blocking(move || Ok(next(&mut source)?.map(|piece| (piece, source))))
    });
    stream::iter(first.map(Ok)).chain(rest).boxed()
}

fn chunk(data: Bytes) -> v1::FileChunk {
    v1::FileChunk { header: None, data }
}

fn in_range(field: &str, value: u32, max: u32) -> Result<usize, Kind> {
    if (1..=max).contains(&value) {
        Ok(value as usize)
    } else {
        Err(invalid(field, format!("must be 1 to {max}")))
    }
}

/// The error for a stream that ended before its last part.
fn cut_off(field: &str) -> Kind {
    invalid(field, "ended in the middle")
}

fn limit_reached(limit: &str, value: usize) -> Status {
    to_status(Kind::LimitReached(v1::LimitReached { limit: limit.into(), value: value as u64 }))
}
