//! From this machine to a sandbox.

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

use super::progress::{bar, shown};
use super::remote::Remote;

/// Bytes of an archive that are sent at once, and such pieces on their way.
const PIECE_BYTES: usize = 256 * 1024;
const PIECES: usize = 4;

/// Permission bits of a file.
const MODE_BITS: u32 = 0o777;

type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// Copies a file, a directory, or `-` for what comes by standard input.
pub(super) async fn copy(from: &str, to: &Remote, draw: bool) -> anyhow::Result<()> {
    if from == "-" {
        let pieces = pieces(tokio::io::stdin());
        return put(to, &to.path, pieces, None, bar(draw, "-", None)).await;
    }
    let path = Path::new(from);
    let meta = std::fs::metadata(path).with_context(|| format!("{from} cannot be read"))?;
    let target = target(path, to).await?;
    if meta.is_dir() {
        let bar = bar(draw, from, None);
        let archive = upload_stream(shown(packed(path.to_owned()), bar.clone()));
        to.client.unpack_files(&to.sandbox, &target, archive).await?;
        bar.finish_and_clear();
        return Ok(());
    }
    anyhow::ensure!(meta.is_file(), "{from} is neither a file nor a directory");
    let file = tokio::fs::File::open(path).await.with_context(|| format!("{from} cannot be read"))?;
    let mode = Some(meta.permissions().mode() & MODE_BITS);
    put(to, &target, pieces(file), mode, bar(draw, from, Some(meta.len()))).await
}

async fn put(
    to: &Remote,
    path: &str,
    pieces: Pieces,
    mode: Option<u32>,
    bar: indicatif::ProgressBar,
) -> anyhow::Result<()> {
    let options = WriteOptions { mode, ..WriteOptions::default() };
    to.client.put_file(&to.sandbox, path, upload_stream(shown(pieces, bar.clone())), options).await?;
    bar.finish_and_clear();
    Ok(())
}

/// In a directory that is there, or that is meant by a slash, it keeps its name.
async fn target(from: &Path, to: &Remote) -> anyhow::Result<String> {
    let is_dir = match to.client.stat_file(&to.sandbox, &to.path).await {
        Ok(info) => info.kind == FileKind::Directory,
        Err(error) if error.code() == Some(ErrorCode::NotFound) => to.path.ends_with('/'),
        Err(error) => return Err(error.into()),
    };
    if !is_dir {
        return Ok(to.path.clone());
    }
    let whole = std::fs::canonicalize(from)?;
    let name = whole.file_name().context("it has no name")?.to_str().context("its name is no text")?;
    Ok(if to.path.is_empty() { name.to_owned() } else { format!("{}/{name}", to.path.trim_end_matches('/')) })
}

fn pieces(reader: impl AsyncRead + Send + 'static) -> Pieces {
    ReaderStream::with_capacity(reader, PIECE_BYTES).boxed()
}

/// A directory as an archive, made while it is sent. A file that cannot be read ends it, and with it the copy.
fn packed(dir: PathBuf) -> Pieces {
    let (sender, receiver) = mpsc::channel(PIECES);
    tokio::task::spawn_blocking(move || {
        let mut out = Sender { sender: sender.clone(), piece: Vec::new() };
        let mut archive = tar::Builder::new(&mut out);
        archive.follow_symlinks(false);
        let packed = archive.append_dir_all("", &dir).and_then(|()| archive.finish());
        drop(archive);
        if let Err(error) = packed.and_then(|()| out.flush()) {
            // Nobody waits for it where the copy has failed already.
            let _ = sender.blocking_send(Err(error));
        }
    });
    ReceiverStream::new(receiver).map_err(Into::into).boxed()
}

/// Where the archive is written to.
struct Sender {
    sender: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        self.sender.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
