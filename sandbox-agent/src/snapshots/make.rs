//! Walks through the sandbox's files and makes their tree.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use agent_protocol::v1::SnapshotEnd;
use bytes::Bytes;
use prost::Message;
use rustix::fs::{AtFlags, FileType, OFlags, Stat, readlinkat, statat, syncfs};
use rustix::io::Errno;
use snapshot_format::tree::MODE_BITS;
use snapshot_format::{Chunker, Content, Entry, Kind};

use super::directory::{Directory, Found, OpenDirectories};
use super::mode_records::ModeRecords;
use super::names::{self, Names};
use super::pause::Pause;
use super::sink::Sink;
use super::stat_cache::{CacheReader, CacheWriter, FileTime};
use super::tree_writer::TreeWriter;
use super::unreadable::Opened;
use super::{EXCLUDED, ROOTS, Stop, attributes, file};
use crate::files::staging::StagingHandle;
use crate::limits::MAX_SNAPSHOT_NAMES_BYTES;

/// Maximum number of torn files that are named.
const MAX_TORN: usize = 100;

/// Memory for a file with several links besides its path, in bytes.
const LINK_OVERHEAD: usize = 64;

/// Where a snapshot is made from.
#[derive(Debug)]
pub(crate) struct Source {
    /// The sandbox's volume.
    pub(crate) volume: OwnedFd,
    /// Where changed modes are recorded.
    pub(crate) staging: Option<StagingHandle>,
    /// The cache of the parent snapshot.
    pub(crate) known: Option<File>,
    /// Where the cache of this snapshot is written.
    pub(crate) cache: Option<File>,
}

/// Makes a snapshot of everything in the volume that belongs to one, and sends it.
pub(crate) fn make(source: Source, pause: Option<&Pause>, sink: Sink) -> Result<(), Stop> {
    let began = FileTime::now();
    syncfs(&source.volume).map_err(io::Error::from)?;
    let known = source.known.and_then(|known| CacheReader::open(known).ok());
    let mut walk = Walk {
        has_cache: known.is_some(),
        known,
        cache: CacheWriter::new(source.cache, began),
        modes: ModeRecords::new(source.staging),
        sink,
        chunker: Chunker::default(),
        links: HashMap::new(),
        held: 0,
        end: SnapshotEnd::default(),
    };
    let root = walk.roots(source.volume.as_fd())?;
    // An incomplete cache ends early, and the files after it are read again.
    walk.cache.finish();
    walk.end.root = root.encode_to_vec().into();
    walk.end.paused = pause.is_some_and(Pause::holds);
    walk.sink.end(walk.end)
}

struct Walk {
    known: Option<CacheReader<File>>,
    has_cache: bool,
    cache: CacheWriter<File>,
    modes: Rc<ModeRecords>,
    sink: Sink,
    chunker: Chunker,
    /// The first path of each file with several links, by its device and inode. An overlay has the inodes of several
    /// file systems.
    links: HashMap<(u64, u64), Bytes>,
    /// Memory for names and directories that are not sent yet, in bytes.
    held: usize,
    end: SnapshotEnd,
}

/// What the walk has found next in a directory.
enum Next {
    /// The entry of anything but a directory.
    Entry(Entry),
    /// A directory, whose entries come next.
    Directory(Directory),
    /// Nothing, because it was removed meanwhile.
    Gone,
    /// Nothing, because everything was visited.
    End,
}

impl Walk {
    /// The root directory, which has only the directories that belong to a snapshot.
    fn roots(&mut self, volume: BorrowedFd<'_>) -> Result<Content, Stop> {
        let mut tree = TreeWriter::default();
        for name in ROOTS.map(str::as_bytes) {
            let Some(stat) = stat_of(volume, name)? else { continue };
            let found = Found { dir: volume, name, path: name, stat, is_known: self.has_cache };
            if found.kind() != FileType::Directory {
                return Err(Stop::rejected(name, "must be a directory"));
            }
            if let Some(root) = self.open(&found)? {
                let entry = self.whole(root, name)?;
                tree.push(&entry, &mut self.sink)?;
            }
        }
        let known = self.known.as_mut().and_then(CacheReader::leave);
        let root = tree.finish(known.as_ref(), &mut self.sink)?;
        self.cache.leave(&root);
        Ok(root)
    }

    /// The entry of a directory with everything beneath it. Without recursion: a directory may be deep, and a thread's stack
    /// is small.
    fn whole(&mut self, root: Directory, path: &[u8]) -> Result<Entry, Stop> {
        let mut path = path.to_vec();
        let mut open = OpenDirectories::new(root);
        while let Some(dir) = open.current() {
            match self.next(dir, &mut path)? {
                Next::Entry(entry) => dir.tree.push(&entry, &mut self.sink)?,
                Next::Gone => {}
                Next::Directory(child) => open.enter(child, &path)?,
                Next::End => {
                    let entry = self.close(open.leave())?;
                    let Some(parent) = open.current() else { return Ok(entry) };
                    self.held -= parent.tree.held();
                    parent.tree.push(&entry, &mut self.sink)?;
                }
            }
        }
        unreachable!("the root's entry was returned")
    }

    /// Visits the next entry of a directory. The directory's tree counts as held while the entry is visited, and until an
    /// entry that is a directory was left.
    fn next(&mut self, dir: &mut Directory, path: &mut Vec<u8>) -> Result<Next, Stop> {
        let Some(name) = dir.names.get(dir.visited) else { return Ok(Next::End) };
        dir.visited += 1;
        path.truncate(dir.path_bytes);
        path.push(b'/');
        path.extend_from_slice(name);
        self.sink.keep_alive()?;
        let parent = dir.opened.as_fd();
        let Some(stat) = stat_of(parent, name)? else { return Ok(Next::Gone) };
        self.held += dir.tree.held();
        let next = self.visit(&Found { dir: parent, name, path, stat, is_known: dir.is_known })?;
        if !matches!(next, Next::Directory(_)) {
            self.held -= dir.tree.held();
        }
        Ok(next)
    }

    fn visit(&mut self, found: &Found<'_>) -> Result<Next, Stop> {
        match found.kind() {
            FileType::Directory => Ok(self.open(found)?.map_or(Next::Gone, Next::Directory)),
            _ => Ok(self.entry(found)?.map_or(Next::Gone, Next::Entry)),
        }
    }

    /// Opens a directory and reads its names, or returns `None` if it is gone.
    fn open(&mut self, found: &Found<'_>) -> Result<Option<Directory>, Stop> {
        let Found { dir, name, path, stat, is_known } = *found;
        let failed = |error: io::Error| Stop::failed(path, &error);
        let record = |before, set| self.modes.add(path, before, set);
        let mut opened = match Opened::open(dir, name, OFlags::RDONLY | OFlags::DIRECTORY, &stat, record) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        };
        let attributes = attributes::of(&opened).map_err(failed)?;
        opened.put_mode_back();
        let record = self.known.as_mut().filter(|_| is_known).and_then(|known| known.find(name));
        self.cache.enter(name);
        let names =
            if EXCLUDED.contains(&path) { Names::default() } else { self.names(opened.as_fd(), path)? };
        Ok(Some(Directory {
            opened,
            path_bytes: path.len(),
            names,
            visited: 0,
            tree: TreeWriter::default(),
            is_known: record.is_some_and(|record| record.begins_directory()),
            entry: Entry { attributes, ..entry_of(name, Kind::Directory, &stat) },
        }))
    }

    /// The entry of a directory whose entries were all added.
    fn close(&mut self, dir: Directory) -> Result<Entry, Stop> {
        let Directory { names, tree, is_known, entry, .. } = dir;
        let known = self.known.as_mut().filter(|_| is_known).and_then(CacheReader::leave);
        self.held -= names.held();
        let content = tree.finish(known.as_ref(), &mut self.sink)?;
        self.cache.leave(&content);
        self.end.directories += 1;
        Ok(Entry { content: Some(content), ..entry })
    }

    fn names(&mut self, dir: BorrowedFd<'_>, path: &[u8]) -> Result<Names, Stop> {
        let names = Names::read(dir, MAX_SNAPSHOT_NAMES_BYTES.saturating_sub(self.held));
        let names = names.map_err(|failed| match failed {
            names::Failed::TooMany => Stop::rejected(path, "has too many entries for one directory"),
            names::Failed::Io(error) => Stop::failed(path, &error),
        })?;
        self.held += names.held();
        Ok(names)
    }

    /// The entry of anything but a directory, or `None` if it is gone.
    fn entry(&mut self, found: &Found<'_>) -> Result<Option<Entry>, Stop> {
        let plain = |kind| Some(entry_of(found.name, kind, &found.stat));
        match found.kind() {
            FileType::RegularFile => self.file(found),
            FileType::Symlink => link(found),
            FileType::Fifo => Ok(plain(Kind::Fifo)),
            FileType::Socket => Ok(plain(Kind::Socket)),
            _ => Err(Stop::rejected(found.path, "is a device, which a snapshot cannot have")),
        }
    }

    fn file(&mut self, found: &Found<'_>) -> Result<Option<Entry>, Stop> {
        let Found { name, path, stat, is_known, .. } = *found;
        if let Some(target) = self.earlier_link(path, &stat)? {
            // Mode and times are those of the file.
            let name = Bytes::copy_from_slice(name);
            return Ok(Some(Entry { name, kind: Kind::HardLink.into(), target, ..Entry::default() }));
        }
        let unchanged = self.known.as_mut().filter(|_| is_known).and_then(|known| {
            let record = known.find(name)?;
            known.unchanged(record, &stat)
        });
        let (entry, stat) = match unchanged {
            Some(entry) => (entry, stat),
            None => match file::read(found, &self.modes, &mut self.chunker, &mut self.sink)? {
                Some(read) => self.entry_of_read(name, path, read),
                None => {
                    self.links.remove(&(stat.st_dev, stat.st_ino));
                    return Ok(None);
                }
            },
        };
        self.cache.file(&entry, &stat);
        self.end.files += 1;
        self.end.bytes += entry.content.as_ref().map_or(0, |content| content.size);
        Ok(Some(entry))
    }

    fn entry_of_read(&mut self, name: &[u8], path: &[u8], read: file::FileRead) -> (Entry, Stat) {
        if read.is_torn {
            self.end.torn_files += 1;
            if self.end.torn.len() < MAX_TORN {
                self.end.torn.push(Bytes::copy_from_slice(path));
            }
        }
        let entry = entry_of(name, Kind::File, &read.stat);
        (Entry { content: Some(read.content), attributes: read.attributes, ..entry }, read.stat)
    }

    /// The first path of a file with several links, unless this is the first.
    fn earlier_link(&mut self, path: &[u8], stat: &Stat) -> Result<Option<Bytes>, Stop> {
        if stat.st_nlink < 2 {
            return Ok(None);
        }
        if let Some(first) = self.links.get(&(stat.st_dev, stat.st_ino)) {
            return Ok(Some(first.clone()));
        }
        self.held += path.len() + LINK_OVERHEAD;
        if self.held > MAX_SNAPSHOT_NAMES_BYTES {
            return Err(Stop::rejected(path, "is one of too many files with several links"));
        }
        self.links.insert((stat.st_dev, stat.st_ino), Bytes::copy_from_slice(path));
        Ok(None)
    }
}

fn link(found: &Found<'_>) -> Result<Option<Entry>, Stop> {
    let Found { dir, name, path, stat, .. } = *found;
    match readlinkat(dir, name, Vec::new()) {
        Ok(target) => {
            let target = Bytes::from(target.into_bytes());
            Ok(Some(Entry { target, mode: 0, ..entry_of(name, Kind::SymbolicLink, &stat) }))
        }
        // Gone, or no link any more.
        Err(Errno::NOENT | Errno::INVAL) => Ok(None),
        Err(error) => Err(Stop::failed(path, &error.into())),
    }
}

/// The metadata of `name`, or `None` if it is gone.
fn stat_of(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Stat>, Stop> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(Stop::failed(name, &error.into())),
    }
}

#[expect(clippy::useless_conversion, reason = "the types differ between architectures")]
fn entry_of(name: &[u8], kind: Kind, stat: &Stat) -> Entry {
    Entry {
        name: Bytes::copy_from_slice(name),
        kind: kind.into(),
        mode: stat.st_mode & MODE_BITS,
        modified_s: stat.st_mtime.into(),
        modified_ns: stat.st_mtime_nsec.try_into().unwrap_or(0),
        ..Entry::default()
    }
}
