//! The workspace's files: decode, call, encode. See [`super::file_service`] for the threads and permits.

use std::sync::Arc;

use agent_protocol::fault::{Kind, to_status};
use agent_protocol::v1::files_server::Files;
use agent_protocol::v1::{self, Change};
use bytes::{Buf, Bytes};
use futures::stream::{self, StreamExt, TryStreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::archive;
use super::file_service::blocking;
use super::messages::in_messages;
use super::service::{Events, Reply, Service};
use crate::files::batch::Batch;
use crate::files::edit::EditOrder;
use crate::files::path::invalid;
use crate::limits::{MAX_LIST_DEPTH, MAX_LIST_ENTRIES, MESSAGE_BYTES};

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
        let opened = self.files.look(path, move |root, path| {
            let mut reading = root.workspace.read(path, max_bytes, range)?;
            let mut first = reading.next()?;
            let info = first.as_mut().and_then(|chunk| chunk.header.as_mut()?.info.as_mut());
            if let Some(info) = info {
                info.path = root.name(std::mem::take(&mut info.path));
            }
            Ok((first, reading))
        });
        let (first, reading) = opened.await?;
        if reading.is_over() {
            return Ok(Response::new(stream::iter(first.map(Ok)).boxed()));
        }
        let permit = self.files.read_permit().await?;
        Ok(Response::new(pieces(first, (reading, permit), |(reading, _)| reading.next())))
    }

    async fn stat(&self, request: Request<v1::PathRef>) -> Reply<v1::FileInfo> {
        let path = request.into_inner().path;
        let looked = self.files.look(path, |root, path| Ok(root.name_info(root.workspace.stat(&path)?)));
        Ok(Response::new(looked.await?))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Reply<Self::ListStream> {
        let v1::ListRequest { path, depth, limit, after } = request.into_inner();
        let listed = self.files.look(path, move |root, path| {
            let workspace = &root.workspace;
            let depth = in_range("depth", depth, MAX_LIST_DEPTH)?;
            let limit = in_range("limit", limit, MAX_LIST_ENTRIES)?;
            let after = (!after.is_empty()).then(|| workspace.path(&after)).transpose()?;
            let mut pages = workspace.list(&path, depth, limit, after.map(|after| after.relative))?;
            for entry in pages.iter_mut().flat_map(|page| &mut page.entries) {
                entry.path = root.name(std::mem::take(&mut entry.path));
            }
            Ok(pages)
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
        let v1::EditRequest { path, edits, all_on_original } = request.into_inner();
        let order = if all_on_original { EditOrder::AllOnOriginal } else { EditOrder::OneAfterAnother };
        let heavy_permit = self.files.heavy_permit().await?;
        let change = self.files.workspace.change().await;
        let edited = self.files.run(move |workspace| {
            let _permit = heavy_permit;
            workspace.edit(&workspace.path(&path)?, &edits, order, &change)
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
        let permit = self.files.pack_permit().await?;
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
        let permit = self.files.unpack_permit().await?;
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
        let permit = self.files.watch_permit()?;
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
        let found = self.files.look(request.path.clone(), move |root, path| {
            let _permit = heavy_permit;
            let mut found = root.workspace.grep(&path, &request)?;
            for line in &mut found.matches {
                line.path = root.name(std::mem::take(&mut line.path));
            }
            Ok(found)
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
        let found = self.files.look(request.path.clone(), move |root, path| {
            let _permit = heavy_permit;
            let mut found = root.workspace.glob(&path, &request)?;
            found.entries = found.entries.into_iter().map(|info| root.name_info(info)).collect();
            Ok(found)
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
