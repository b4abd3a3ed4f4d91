//! Copies from this machine to a sandbox.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use sandbox_api::ErrorCode;
use sandbox_api::files::FileKind;
use sandbox_client::{WriteOptions, upload_stream};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::io::ReaderStream;

use super::remote_path::RemotePath;
use crate::progress::{progress_bar, with_progress};

/// Size of the chunks that are sent.
const CHUNK_BYTES: usize = 256 * 1024;

/// Maximum number of queued chunks of an archive.
const MAX_QUEUED_CHUNKS: usize = 4;

/// Permission bits of a file.
const MODE_BITS: u32 = 0o777;

type Chunks = BoxStream<'static, io::Result<Bytes>>;

/// Copies a file, a directory, or standard input (`-`).
pub(super) async fn copy(from: &str, to: &RemotePath, show_progress: bool) -> anyhow::Result<()> {
    if from == "-" {
        let chunks = chunks(tokio::io::stdin());
        return put(to, &to.path, chunks, None, progress_bar(show_progress, "-", None)).await;
    }
    let path = Path::new(from);
    let meta = std::fs::metadata(path).with_context(|| format!("{from} cannot be read"))?;
    let target = target(path, to).await?;
    if meta.is_dir() {
        let bar = progress_bar(show_progress, from, None);
        let archive = upload_stream(with_progress(pack(path.to_owned()), bar.clone()));
        to.client.unpack_files(&to.sandbox, &target, archive).await?;
        bar.finish_and_clear();
        return Ok(());
    }
    anyhow::ensure!(meta.is_file(), "{from} is neither a file nor a directory");
    let file = tokio::fs::File::open(path).await.with_context(|| format!("{from} cannot be read"))?;
    let mode = Some(meta.permissions().mode() & MODE_BITS);
    put(to, &target, chunks(file), mode, progress_bar(show_progress, from, Some(meta.len()))).await
}

async fn put(
    to: &RemotePath,
    path: &str,
    chunks: Chunks,
    mode: Option<u32>,
    bar: indicatif::ProgressBar,
) -> anyhow::Result<()> {
    let options = WriteOptions { mode, ..WriteOptions::default() };
    to.client.put_file(&to.sandbox, path, upload_stream(with_progress(chunks, bar.clone())), options).await?;
    bar.finish_and_clear();
    Ok(())
}

/// Target path of the copy. In an existing directory, and after a trailing slash, the copy keeps the name of the
/// original.
async fn target(from: &Path, to: &RemotePath) -> anyhow::Result<String> {
    let is_dir = match to.client.stat_file(&to.sandbox, &to.path).await {
        Ok(info) => info.kind == FileKind::Directory,
        Err(error) if error.code() == Some(ErrorCode::NotFound) => to.path.ends_with('/'),
        Err(error) => return Err(error.into()),
    };
    if !is_dir {
        return Ok(to.path.clone());
    }
    let absolute = std::fs::canonicalize(from)?;
    let name = absolute.file_name().with_context(|| format!("{} has no name", from.display()))?;
    let name = name.to_str().with_context(|| format!("the name of {} is not UTF-8", from.display()))?;
    Ok(if to.path.is_empty() { name.to_owned() } else { format!("{}/{name}", to.path.trim_end_matches('/')) })
}

fn chunks(reader: impl AsyncRead + Send + 'static) -> Chunks {
    ReaderStream::with_capacity(reader, CHUNK_BYTES).boxed()
}

/// Archive of a directory, created while it is sent. A file that cannot be read ends the archive with an error, which
/// fails the copy.
fn pack(dir: PathBuf) -> Chunks {
    archive(move |archive| archive.append_dir_all("", &dir))
}

/// An archive that is created by `fill` while it is sent. An error of `fill` ends it.
pub(crate) fn archive(
    fill: impl FnOnce(&mut tar::Builder<&mut ChunkWriter>) -> io::Result<()> + Send + 'static,
) -> Chunks {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    tokio::task::spawn_blocking(move || {
        let mut out = ChunkWriter { sender: sender.clone(), chunk: Vec::new() };
        let mut archive = tar::Builder::new(&mut out);
        archive.follow_symlinks(false);
        let packed = fill(&mut archive).and_then(|()| archive.finish());
        drop(archive);
        if let Err(error) = packed.and_then(|()| out.flush()) {
            // If the copy has already failed, the receiver is gone.
            let _ = sender.blocking_send(Err(error));
        }
    });
    ReceiverStream::new(receiver).map_err(Into::into).boxed()
}

/// Sends the bytes of an archive in chunks.
pub(crate) struct ChunkWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    chunk: Vec<u8>,
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let chunk = Bytes::from(std::mem::take(&mut self.chunk));
        self.sender.blocking_send(Ok(chunk)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
