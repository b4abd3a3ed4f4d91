//! Packs a directory for the sandbox of a fetch: a thread reads, with a short queue to the connection.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use futures::Stream;
use sandboxd_model::limits;
use tar::{Builder, EntryType, Header};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::digest::{FilesHash, fault_of, is_executable};
use super::open::open_directory;
use super::walk::{Content, Entry, EntryKind, Visited, Walk};
use super::{ArchiveOf, Directory, git_directory};
use crate::Error;

/// Size of a part in bytes, and the length of the queue.
const PART_BYTES: usize = 64 * 1024;
/// See [`PART_BYTES`].
const PARTS: usize = 8;

/// A part of the archive, or its end with whether something was skipped.
#[derive(Debug)]
pub(crate) enum Part {
    Bytes(Bytes),
    End { has_skipped: bool },
}

/// The archive, as it is packed. Its last part is an end or an error; without it, the thread has stopped.
#[derive(Debug)]
pub(crate) struct ArchiveStream(mpsc::Receiver<Result<Part, Error>>);

impl Stream for ArchiveStream {
    type Item = Result<Part, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

impl Directory {
    /// Packs the directory. If the receiver stops early, so does the thread.
    pub(crate) fn archive(&self, of: ArchiveOf) -> ArchiveStream {
        let (parts, received) = mpsc::channel(PARTS);
        let directory = self.clone();
        spawn_blocking(move || {
            let writer = Writer { parts: parts.clone(), part: Vec::with_capacity(PART_BYTES) };
            let last = directory.pack(of, writer).map(|has_skipped| Part::End { has_skipped });
            // If the receiver is gone, it is not needed.
            let _ = parts.blocking_send(last);
        });
        ArchiveStream(received)
    }

    /// Returns whether something was skipped.
    fn pack(&self, of: ArchiveOf, writer: Writer) -> Result<bool, Error> {
        let walk = self.walk(Instant::now() + limits::FETCH_COMMAND);
        let root = self.open()?;
        let mut archive = Builder::new(writer);
        let has_skipped = match of {
            ArchiveOf::Objects => {
                let git = git_directory(&root)?.ok_or(Error::Changed)?;
                pack_objects(&git, &walk, &mut archive)?;
                false
            }
            ArchiveOf::Files(expected) => pack_files(&root, &walk, &expected, &mut archive)?,
        };
        archive.into_inner().and_then(|mut writer| writer.flush()).map_err(packing)?;
        Ok(has_skipped)
    }
}

/// Packs what git reads of its objects, and where the history of a shallow clone ends. The configuration, the hooks, the index
/// and the references to other repositories are not in the archive.
fn pack_objects(git: &OwnedFd, walk: &Walk, archive: &mut Builder<Writer>) -> Result<(), Error> {
    let shallow = super::read_small(git, &["shallow"], limits::MAX_LOOK_UP_BYTES)?;
    if let Some(content) = shallow {
        let mut header = header_of(EntryType::Regular, 0o644);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, "shallow", content.as_slice()).map_err(packing)?;
    }
    let objects = open_directory(git, c"objects").map_err(|source| Error::Directory { source })?;
    walk.visit(&objects, &mut |entry| {
        let is_wanted = match entry.kind {
            EntryKind::Directory => entry.path.as_os_str().len() == 2 || entry.path == Path::new("pack"),
            EntryKind::File => is_object(entry.path),
            EntryKind::Link => false,
        };
        match (is_wanted, entry.kind) {
            (false, _) => Ok(Visited::Unwanted),
            (true, EntryKind::File) => {
                pack_file(entry, &Path::new("objects").join(entry.path), None, archive)
            }
            (true, _) => Ok(Visited::Taken),
        }
    })?;
    Ok(())
}

/// Whether a file of `objects` is one object, a pack or its index.
fn is_object(path: &Path) -> bool {
    let is_hash = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((parent, name)) = path.to_str().and_then(|path| path.split_once('/')) else { return false };
    match parent {
        "pack" => ["pack", "idx"].iter().any(|kind| name.ends_with(kind)) && name.starts_with("pack-"),
        _ => is_hash(parent) && is_hash(name),
    }
}

/// Packs all files. Fails if they are not those with the expected hash.
fn pack_files(
    root: &OwnedFd,
    walk: &Walk,
    expected: &sandboxd_model::repository::CommitHash,
    archive: &mut Builder<Writer>,
) -> Result<bool, Error> {
    let mut hash = FilesHash::new();
    let found = walk.visit(root, &mut |entry| match entry.kind {
        EntryKind::Directory => {
            hash.add_directory(entry);
            let mut header = header_of(EntryType::Directory, 0o755);
            set_time(&mut header, entry);
            archive.append_data(&mut header, entry.path, io::empty()).map_err(packing)?;
            Ok(Visited::Taken)
        }
        EntryKind::Link => {
            let target = entry.target()?;
            hash.add_link(entry, &target);
            let mut header = header_of(EntryType::Symlink, 0o777);
            archive.append_link(&mut header, entry.path, &target).map_err(packing)?;
            Ok(Visited::Taken)
        }
        EntryKind::File => pack_file(entry, entry.path, Some(&mut hash), archive),
    })?;
    if hash.finish()? != *expected {
        return Err(Error::Changed);
    }
    Ok(found.has_skipped)
}

fn pack_file(
    entry: &Entry<'_>,
    to: &Path,
    mut hash: Option<&mut FilesHash>,
    archive: &mut Builder<Writer>,
) -> Result<Visited, Error> {
    let Some(content) = entry.open()? else { return Ok(Visited::Skipped) };
    if let Some(hash) = &mut hash {
        hash.add_file(entry);
    }
    let mut header = header_of(EntryType::Regular, if is_executable(entry) { 0o755 } else { 0o644 });
    header.set_size(entry.size());
    set_time(&mut header, entry);
    let mut hashed = Hashed { content, hash };
    let appended = archive.append_data(&mut header, to, &mut hashed);
    fault_of(appended, hashed.content)?;
    Ok(Visited::Taken)
}

/// Adds the bytes of a file to the hash as they are read.
struct Hashed<'a> {
    content: Content,
    hash: Option<&'a mut FilesHash>,
}

impl Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        if let Some(hash) = &mut self.hash {
            hash.add_bytes(&buffer[..read]);
        }
        Ok(read)
    }
}

fn header_of(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(0);
    header
}

fn set_time(header: &mut Header, entry: &Entry<'_>) {
    header.set_mtime(u64::try_from(entry.stat.st_mtime).unwrap_or(0));
}

fn packing(source: io::Error) -> Error {
    Error::Directory { source }
}

/// Joins what is written to parts of the queue. Returns a broken pipe if the receiver is gone.
struct Writer {
    parts: mpsc::Sender<Result<Part, Error>>,
    part: Vec<u8>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.extend_from_slice(bytes);
        if self.part.len() >= PART_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let part = std::mem::replace(&mut self.part, Vec::with_capacity(PART_BYTES));
        let sent = self.parts.blocking_send(Ok(Part::Bytes(part.into())));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
