//! Streams of a file's bytes, in both directions.
//!
//! A stream has no time limit as a whole, because a file may have any size. It has one for making no progress. An
//! upload whose source fails is cancelled and never ended: without its last message, nothing of it is written.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use agent_protocol::v1;
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tonic::Streaming;

use super::super::command::within;
use super::super::{AgentHandle, Error};
use super::wire;
use sandboxd_model::files::{
    ByteRange, Change, Compression, FileHeader, FilePath, FileTarget, NewFile, Unpacked, Written,
};
use sandboxd_model::limits;

/// The bytes of a file, as they arrive.
pub type ByteStream = BoxStream<'static, Result<Bytes, Error>>;

/// Changes, as they happen.
pub type ChangeStream = BoxStream<'static, Result<Vec<Change>, Error>>;

/// An upload failed.
#[derive(Debug)]
pub enum UploadError<E> {
    /// The call to the agent failed.
    Agent(Error),
    /// The source of the upload failed.
    Source(E),
}

impl AgentHandle {
    /// Writes all of the files, or none.
    pub async fn write_files(&self, files: Vec<NewFile>) -> Result<(), Error> {
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        within(limits::FILE_TRANSFER, client.write(parts(files))).await?;
        Ok(())
    }

    /// Writes one file of any size.
    pub async fn write_file<E: Send + 'static>(
        &self,
        target: FileTarget,
        content: BoxStream<'static, Result<Bytes, E>>,
    ) -> Result<Written, UploadError<E>> {
        let mut head = Some(wire::head(target));
        let mut client = self.files_client(limits::AGENT_ABSENCE).await.map_err(UploadError::Agent)?;
        let part = move |data, end| v1::FilePart { head: head.take(), data, end };
        let reply = upload(content, part, |parts| async move { client.write(parts).await }.boxed()).await?;
        Ok(Written { etag: reply.etag, created: reply.created, bytes: reply.bytes })
    }

    /// Unpacks an archive into a directory, completely or not at all.
    pub async fn unpack<E: Send + 'static>(
        &self,
        path: FilePath,
        archive: BoxStream<'static, Result<Bytes, E>>,
    ) -> Result<Unpacked, UploadError<E>> {
        let mut path = path.0;
        let mut client = self.files_client(limits::AGENT_ABSENCE).await.map_err(UploadError::Agent)?;
        let part = move |data, end| v1::UnpackPart { path: std::mem::take(&mut path), data, end };
        let reply = upload(archive, part, |parts| async move { client.unpack(parts).await }.boxed()).await?;
        Ok(Unpacked { files: reply.files, bytes: reply.bytes })
    }

    /// Opens a file of at most `max_bytes` (0 means any size) and reads a part of it, or all.
    pub async fn read_file(
        &self,
        path: FilePath,
        max_bytes: u64,
        range: Option<ByteRange>,
    ) -> Result<(FileHeader, ByteStream), Error> {
        let request = v1::ReadFileRequest { path: path.0, max_bytes, range: range.map(wire::range) };
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        let open = async {
            let mut chunks = client.read(request).await?.into_inner();
            Ok((chunks.try_next().await?, chunks))
        };
        let (first, chunks) = within(limits::AGENT_CALL, open).await?;
        let first = first.ok_or(Error::Malformed { missing: "chunk" })?;
        let header = wire::header(first.header.ok_or(Error::Malformed { missing: "header" })?)?;
        let bytes = exactly(header.length, futures::stream::iter([Ok(first.data)]).chain(pieces(chunks)));
        Ok((header, bytes))
    }

    /// Packs the entry at a path.
    pub async fn pack(&self, path: FilePath, compression: Compression) -> Result<ByteStream, Error> {
        let compression = wire::compression(compression).into();
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        let request = v1::PackRequest { path: path.0, compression };
        let chunks = within(limits::AGENT_CALL, client.pack(request)).await?.into_inner();
        Ok(pieces(chunks).boxed())
    }

    /// Watches the entries below a path.
    pub async fn watch_files(&self, path: FilePath, recursive: bool) -> Result<ChangeStream, Error> {
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        let request = v1::WatchRequest { path: path.0, recursive };
        let events = within(limits::AGENT_CALL, client.watch(request)).await?.into_inner();
        let changes = events.map(|events| {
            let changes: Result<Vec<Change>, Error> = events?.events.into_iter().map(wire::change).collect();
            changes
        });
        Ok(changes.boxed())
    }
}

fn pieces(chunks: Streaming<v1::FileChunk>) -> impl Stream<Item = Result<Bytes, Error>> + Send {
    futures::stream::try_unfold(chunks, |mut chunks| async move {
        let chunk = within(limits::FILE_TRANSFER, chunks.try_next()).await?;
        Ok(chunk.map(|chunk| (chunk.data, chunks)))
    })
}

/// The agent sends as many bytes as it announced; a sandbox that responds in its place might not.
fn exactly(length: u64, bytes: impl Stream<Item = Result<Bytes, Error>> + Send + 'static) -> ByteStream {
    futures::stream::try_unfold((Box::pin(bytes), length), |(mut bytes, rest)| async move {
        match bytes.try_next().await? {
            Some(piece) if piece.len() as u64 <= rest => {
                let rest = rest - piece.len() as u64;
                Ok(Some((piece, (bytes, rest))))
            }
            None if rest == 0 => Ok(None),
            Some(_) | None => Err(Error::Malformed { missing: "length" }),
        }
    })
    .boxed()
}

/// Messages to an agent, as a named type. The compiler cannot see through an opaque type when it checks whether a
/// call is `Send`.
pub(in super::super) struct Parts<P>(BoxStream<'static, P>);

impl<P> Stream for Parts<P> {
    type Item = P;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<P>> {
        self.0.as_mut().poll_next(context)
    }
}

pub(in super::super) type Answer<R> = BoxFuture<'static, Result<tonic::Response<R>, tonic::Status>>;

/// Sends the pieces of `source` to `call`, each as a message made by `part`.
async fn upload<P, R, E>(
    source: BoxStream<'static, Result<Bytes, E>>,
    mut part: impl FnMut(Bytes, bool) -> P + Send + 'static,
    call: impl FnOnce(Parts<P>) -> Answer<R>,
) -> Result<R, UploadError<E>>
where
    P: Send + 'static,
    E: Send + 'static,
{
    let messages = with_end(source).map_ok(move |(data, end)| part(data, end));
    send(messages.boxed(), call).await
}

/// Sends messages to `call`. If their source fails, the call is cancelled: a stream that ends is complete.
pub(in super::super) async fn send<P, R, E>(
    messages: BoxStream<'static, Result<P, E>>,
    call: impl FnOnce(Parts<P>) -> Answer<R>,
) -> Result<R, UploadError<E>>
where
    P: Send + 'static,
    E: Send + 'static,
{
    let (fail, failed) = oneshot::channel();
    let sent = Arc::new(AtomicU64::new(0));
    let progress = Arc::clone(&sent);
    let parts = futures::stream::unfold((messages, Some(fail)), move |(mut messages, mut fail)| {
        let progress = Arc::clone(&progress);
        async move {
            let item = messages.next().await?;
            progress.fetch_add(1, Ordering::Relaxed);
            match item {
                Ok(message) => Some((message, (messages, fail))),
                Err(error) => {
                    let _ = fail.take().map(|fail| fail.send(error));
                    // Ending the stream here would mean that the upload is complete.
                    std::future::pending().await
                }
            }
        }
    });
    tokio::select! {
        biased;
        Ok(error) = failed => Err(UploadError::Source(error)),
        reply = call(Parts(parts.boxed())) => reply.map(tonic::Response::into_inner).map_err(|status| UploadError::Agent(status.into())),
        () = standstill(&sent) => Err(UploadError::Agent(Error::Deadline { after: limits::FILE_TRANSFER })),
    }
}

/// Returns when nothing was sent for a while.
async fn standstill(sent: &AtomicU64) {
    loop {
        let before = sent.load(Ordering::Relaxed);
        sleep(limits::FILE_TRANSFER).await;
        if sent.load(Ordering::Relaxed) == before {
            return;
        }
    }
}

/// The pieces, each with whether it is the last; at least one. Small pieces that are already available are joined.
fn with_end<E: Send + 'static>(
    source: BoxStream<'static, Result<Bytes, E>>,
) -> impl Stream<Item = Result<(Bytes, bool), E>> + Send {
    let state = (source, None, false);
    futures::stream::try_unfold(state, |(mut source, held, over)| async move {
        if over {
            return Ok(None);
        }
        let mut piece = match held {
            Some(piece) => piece,
            None => source.try_next().await?.unwrap_or_default(),
        };
        let mut gathered = BytesMut::new();
        loop {
            match source.try_next().now_or_never() {
                Some(next) => match next? {
                    None => return Ok(Some(((join(gathered, piece), true), (source, None, true)))),
                    Some(more) if gathered.len() + piece.len() + more.len() <= limits::FILE_PART_BYTES => {
                        gathered.extend_from_slice(&piece);
                        piece = more;
                    }
                    Some(more) => {
                        return Ok(Some(((join(gathered, piece), false), (source, Some(more), false))));
                    }
                },
                // The gathered pieces are sent.
                None => return Ok(Some(((join(gathered, piece), false), (source, None, false)))),
            }
        }
    })
}

fn join(mut gathered: BytesMut, piece: Bytes) -> Bytes {
    if gathered.is_empty() {
        return piece;
    }
    gathered.extend_from_slice(&piece);
    gathered.freeze()
}

/// The files in parts of a bounded size. The first part of a file names it.
fn parts(files: Vec<NewFile>) -> impl Stream<Item = v1::FilePart> + Send + 'static {
    let end = v1::FilePart { end: true, ..v1::FilePart::default() };
    let parts = files.into_iter().flat_map(|file| {
        let head = Some(wire::head(file.target));
        let mut rest = file.content;
        let first = take_part(&mut rest);
        std::iter::once(v1::FilePart { head, data: first, end: false }).chain(std::iter::from_fn(move || {
            (!rest.is_empty()).then(|| v1::FilePart { head: None, data: take_part(&mut rest), end: false })
        }))
    });
    futures::stream::iter(parts.chain(std::iter::once(end)))
}

fn take_part(rest: &mut Bytes) -> Bytes {
    rest.split_to(rest.len().min(limits::FILE_PART_BYTES))
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    fn file(path: &'static str, content: Bytes) -> NewFile {
        let path = FilePath(Bytes::from_static(path.as_bytes()));
        NewFile {
            target: FileTarget { path, mode: None, if_match: None, if_absent: false, durable: false },
            content,
        }
    }

    #[tokio::test]
    async fn a_file_is_sent_in_parts_and_only_the_first_has_its_name() {
        let content = Bytes::from(vec![7; limits::FILE_PART_BYTES + 1]);
        let files = ["a", "b"].map(|path| file(path, content.clone()));
        let parts: Vec<v1::FilePart> = parts(files.into()).collect().await;
        let sizes: Vec<usize> = parts.iter().map(|part| part.data.len()).collect();
        assert_eq!(sizes, [limits::FILE_PART_BYTES, 1, limits::FILE_PART_BYTES, 1, 0]);
        let named: Vec<bool> = parts.iter().map(|part| part.head.is_some()).collect();
        assert_eq!(named, [true, false, true, false, false]);
        assert!(parts.iter().rev().enumerate().all(|(at, part)| part.end == (at == 0)));
    }

    async fn sent(pieces: &[&'static str]) -> Vec<(String, bool)> {
        let pieces: Vec<_> =
            pieces.iter().map(|piece| Ok::<_, ()>(Bytes::from_static(piece.as_bytes()))).collect();
        let sent = with_end(futures::stream::iter(pieces).boxed()).try_collect::<Vec<_>>().await.unwrap();
        sent.into_iter().map(|(piece, end)| (String::from_utf8(piece.to_vec()).unwrap(), end)).collect()
    }

    #[tokio::test]
    async fn the_last_piece_is_marked_and_empty_content_has_one_piece() {
        assert_eq!(sent(&[]).await, [(String::new(), true)]);
        assert_eq!(sent(&["a"]).await, [("a".to_owned(), true)]);
        assert_eq!(sent(&["a", "b", "c"]).await, [("abc".to_owned(), true)]);
    }

    #[tokio::test]
    async fn an_upload_is_aborted_if_its_source_fails() {
        let source = futures::stream::iter([Ok(Bytes::from_static(b"a")), Err("gone")]).boxed();
        let ended = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&ended);
        let call = |mut parts: Parts<bool>| {
            async move {
                while let Some(end) = parts.next().await {
                    seen.fetch_add(u64::from(end), Ordering::Relaxed);
                }
                seen.fetch_add(1, Ordering::Relaxed);
                Ok(tonic::Response::new(()))
            }
            .boxed()
        };
        let sent = timeout(limits::AGENT_CALL, upload(source, |_, end| end, call)).await.unwrap();
        assert!(matches!(sent, Err(UploadError::Source("gone"))));
        assert_eq!(ended.load(Ordering::Relaxed), 0);
    }
}
