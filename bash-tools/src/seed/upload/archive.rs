//! Packs files while they are sent: a thread reads them, with a short queue of pieces to the network.

use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use tar::{Builder, EntryType, Header};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_stream::wrappers::ReceiverStream;

use super::super::{Error, Result};
use super::survey::{Entry, Kind, Survey, mode, open};
use crate::provider;

/// Size of a piece in bytes, and the length of the queue.
const PIECE_BYTES: usize = 64 * 1024;
/// See [`PIECE_BYTES`].
const PIECES: usize = 8;

/// Returns the archive as a stream, with all entries below the directory `under`, and the result of packing. If the
/// receiver stops early, that is not an error.
pub(super) fn stream(survey: Survey, under: PathBuf) -> (provider::Content, JoinHandle<Result<()>>) {
    let (sender, pieces) = mpsc::channel(PIECES);
    let packing = spawn_blocking(move || {
        let packed = pack(&survey, &under, Pieces { sender: sender.clone() });
        if packed.is_err() {
            // The receiver must not take this for the end of the archive.
            let _ = sender.blocking_send(Err(io::Error::other("the archive was not finished")));
        }
        packed
    });
    (ReceiverStream::new(pieces).boxed(), packing)
}

fn pack(survey: &Survey, under: &Path, pieces: Pieces) -> Result<()> {
    let gzip = GzEncoder::new(BufWriter::with_capacity(PIECE_BYTES, pieces), Compression::fast());
    let mut archive = Builder::new(gzip);
    // Added even if there are no files, so that the directory can be moved into place.
    let top = append(&mut archive, EntryType::Directory, 0o755, under, io::empty());
    match top.map_err(Error::Packing).and_then(|()| pack_entries(survey, under, &mut archive)) {
        Ok(()) => {}
        Err(Error::Packing(error)) if is_unwanted(&error) => return Ok(()),
        Err(error) => return Err(error),
    }
    let finished = archive.into_inner().and_then(GzEncoder::finish).and_then(|mut pieces| pieces.flush());
    match finished {
        Err(error) if !is_unwanted(&error) => Err(Error::Packing(error)),
        _ => Ok(()),
    }
}

fn is_unwanted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

fn pack_entries(survey: &Survey, under: &Path, archive: &mut Builder<impl Write>) -> Result<()> {
    for Entry { path, kind } in &survey.entries {
        let to = under.join(path);
        match kind {
            Kind::Link { target } => {
                let mut header = header(EntryType::Symlink, 0o777);
                archive.append_link(&mut header, to, target).map_err(Error::Packing)?;
            }
            Kind::File { bytes } => pack_file(survey, path, *bytes, &to, archive)?,
        }
    }
    Ok(())
}

fn pack_file(
    survey: &Survey,
    path: &Path,
    bytes: u64,
    to: &Path,
    archive: &mut Builder<impl Write>,
) -> Result<()> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let (file, meta) = open(&survey.root, path)?
        .ok_or_else(|| Error::Unreadable { path: path.to_owned(), source: gone() })?;
    let mut header = header(EntryType::Regular, mode(&meta));
    header.set_size(bytes);
    header.set_mtime(u64::try_from(meta.mtime()).unwrap_or(0));
    let mut content = Content { file, finish_release: bytes, fault: None };
    let appended = archive.append_data(&mut header, to, &mut content);
    match content.fault {
        Some(Fault::Short) => Err(Error::Shrunk { path: path.to_owned() }),
        Some(Fault::Read(source)) => Err(Error::Unreadable { path: path.to_owned(), source }),
        None => appended.map_err(Error::Packing),
    }
}

fn append(
    archive: &mut Builder<impl Write>,
    kind: EntryType,
    mode: u32,
    path: &Path,
    content: impl Read,
) -> io::Result<()> {
    archive.append_data(&mut header(kind, mode), path, content)
}

fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(0);
    header
}

/// Reads exactly as many bytes of a file as its header declares.
struct Content<R> {
    file: R,
    finish_release: u64,
    fault: Option<Fault>,
}

enum Fault {
    Short,
    Read(io::Error),
}

impl<R: Read> Read for Content<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.finish_release).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let (fault, kind) = match self.file.read(&mut buffer[..most]) {
            Ok(0) => (Fault::Short, io::ErrorKind::UnexpectedEof),
            Ok(read) => {
                self.finish_release -= read as u64;
                return Ok(read);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                let kind = error.kind();
                (Fault::Read(error), kind)
            }
        };
        self.fault = Some(fault);
        Err(kind.into())
    }
}

/// Writes to the queue. Returns a broken pipe if the receiver is gone.
struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        self.sender.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
