//! The bytes of one file as chunks.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use rustix::fs::{FileType, OFlags, SeekFrom, Stat, fstat, seek};
use rustix::io::Errno;
use snapshot_format::tree::Attribute;
use snapshot_format::{Chunker, Content, ContentBuilder, Segment};

use super::directory::Found;
use super::mode_records::ModeRecords;
use super::sink::Sink;
use super::stat_cache::FileTime;
use super::unreadable::Opened;
use super::{Stop, attributes};

/// How often a file is read while it changes.
const MAX_TRIES: usize = 3;

/// Files larger than this are read once, however often they change.
const MAX_RETRIED_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes in a block of `st_blocks` (stat(2)).
const STAT_BLOCK_BYTES: u64 = 512;

/// A file as it was read.
#[derive(Debug)]
pub(super) struct FileRead {
    pub(super) content: Content,
    pub(super) attributes: Vec<Attribute>,
    /// As it was before the last read.
    pub(super) stat: Stat,
    /// Whether it was changed again each time it was read.
    pub(super) is_torn: bool,
}

/// Reads a file. Returns `None` if it is not a regular file any more.
pub(super) fn read(
    found: &Found<'_>,
    modes: &Rc<ModeRecords>,
    chunker: &mut Chunker,
    sink: &mut Sink,
) -> Result<Option<FileRead>, Stop> {
    let (mut stat, mut tries) = (found.stat, 0);
    loop {
        tries += 1;
        let Some((read, after)) = read_once(found, &stat, modes, chunker, sink)? else { return Ok(None) };
        if !read.is_torn || tries == MAX_TRIES || read.content.size > MAX_RETRIED_BYTES {
            return Ok(Some(read));
        }
        stat = after;
    }
}

/// Also returns the file's status after the read.
fn read_once(
    found: &Found<'_>,
    stat: &Stat,
    modes: &Rc<ModeRecords>,
    chunker: &mut Chunker,
    sink: &mut Sink,
) -> Result<Option<(FileRead, Stat)>, Stop> {
    let Found { dir, name, path, .. } = *found;
    let record = |before, set| modes.add(path, before, set);
    let mut opened = match Opened::open(dir, name, OFlags::RDONLY, stat, record) {
        Ok(opened) => opened,
        // Gone, or replaced by a link or socket.
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(Stop::failed(name, &error.into())),
    };
    let failed = |error: std::io::Error| Stop::failed(name, &error);
    let file = File::from(opened.as_fd().try_clone_to_owned().map_err(failed)?);
    let status = || fstat(&file).map_err(|error: Errno| failed(error.into()));
    let mut before = status()?;
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let attributes = attributes::of(&file).map_err(failed)?;
    if opened.put_mode_back() {
        // It was changed during this snapshot, so the next one reads it again.
        before = status()?;
    }
    let content = content_of(&file, &before, chunker, sink)?;
    let after = status()?;
    let is_torn = !is_same(&before, &after);
    Ok(Some((FileRead { content, attributes, stat: before, is_torn }, after)))
}

fn is_same(before: &Stat, after: &Stat) -> bool {
    before.st_size == after.st_size && FileTime::of_change(before) == FileTime::of_change(after)
}

fn content_of(file: &File, stat: &Stat, chunker: &mut Chunker, sink: &mut Sink) -> Result<Content, Stop> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
    let mut content = ContentBuilder::default();
    if blocks * STAT_BLOCK_BYTES >= size {
        data(file, 0..size, chunker, &mut content, sink)?;
    } else {
        with_holes(file, size, chunker, &mut content, sink)?;
    }
    content.finish(|node| sink.send(node))
}

/// Reads the file's data, and finds its holes (lseek(2), `SEEK_DATA`).
fn with_holes(
    file: &File,
    size: u64,
    chunker: &mut Chunker,
    content: &mut ContentBuilder,
    sink: &mut Sink,
) -> Result<(), Stop> {
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.min(size),
            // No data after here.
            Err(Errno::NXIO) => size,
            // A file system that does not know holes.
            Err(Errno::INVAL) => at,
            Err(error) => return Err(std::io::Error::from(error).into()),
        };
        if start > at {
            content.push(&Segment::Hole { length: start - at }, &mut |node| sink.send(node))?;
        }
        let end = match start < size {
            true => seek(file, SeekFrom::Hole(start)).map_or(size, |end| end.min(size)),
            false => size,
        };
        if data(file, start..end, chunker, content, sink)? < end - start {
            // The file was cut meanwhile.
            return Ok(());
        }
        at = end;
    }
    Ok(())
}

/// Reads a range. Returns the number of bytes that the file still has of it.
fn data(
    file: &File,
    range: std::ops::Range<u64>,
    chunker: &mut Chunker,
    content: &mut ContentBuilder,
    sink: &mut Sink,
) -> Result<u64, Stop> {
    let length = range.end - range.start;
    chunker.cut(ReadAt { file, at: range.start }, length, |chunk| {
        sink.keep_alive()?;
        let segment = Segment::Chunk { hash: sink.send(chunk)?, length: chunk.len() as u64 };
        content.push(&segment, &mut |node| sink.send(node))
    })
}

/// Reads a file from a position, whatever the file's own position is.
struct ReadAt<'a> {
    file: &'a File,
    at: u64,
}

impl std::io::Read for ReadAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}
