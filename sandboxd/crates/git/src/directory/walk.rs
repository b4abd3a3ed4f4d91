//! Goes through the files of a directory in a fixed order, within limits.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, Dir, Stat, readlinkat, statat};
use rustix::io::Errno;
use sandboxd_model::limits;

use super::open::{Kind, open_directory, open_file};
use crate::Error;

/// Limits of a walk.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    max_bytes: u64,
    deadline: Instant,
}

/// What a walk has found so far.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// With those that were skipped.
    entries: usize,
    /// Size of all files.
    bytes: u64,
    /// Whether something that is not a file, a directory or a link was skipped, or that may not be read.
    pub(super) has_skipped: bool,
}

/// A file, a link or a directory.
pub(super) struct Entry<'a> {
    /// Relative to the root of the walk.
    pub(super) path: &'a Path,
    pub(super) kind: EntryKind,
    pub(super) stat: Stat,
    parent: &'a OwnedFd,
    name: &'a CStr,
    deadline: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// Its entries follow.
    Directory,
    File,
    Link,
}

/// What a visitor does with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visited {
    Taken,
    /// It may not be read.
    Skipped,
    /// It does not belong to the walk, nor do the entries below it.
    Unwanted,
}

type Visitor<'a> = dyn FnMut(&Entry<'_>) -> Result<Visited, Error> + 'a;

impl Walk {
    pub(super) fn new(max_bytes: u64, deadline: Instant) -> Self {
        Self { max_bytes, deadline }
    }

    /// Shows all entries below a directory to a visitor, sorted by name in each directory.
    pub(super) fn visit(&self, root: &OwnedFd, visitor: &mut Visitor<'_>) -> Result<Found, Error> {
        let mut found = Found::default();
        self.visit_directory(root, Path::new(""), 0, &mut found, visitor)?;
        Ok(found)
    }

    fn visit_directory(
        &self,
        directory: &OwnedFd,
        path: &Path,
        depth: usize,
        found: &mut Found,
        visitor: &mut Visitor<'_>,
    ) -> Result<(), Error> {
        if depth > limits::MAX_DIRECTORY_DEPTH {
            return Err(Error::Unsupported("its directories are nested too deeply"));
        }
        for name in sorted_names(directory, found)? {
            if Instant::now() > self.deadline {
                return Err(Error::TooSlow);
            }
            let path = path.join(OsStr::from_bytes(name.to_bytes()));
            let Some(stat) = stat_of(directory, &name)? else { continue };
            let kind = match Kind::of_stat(&stat) {
                Kind::Directory => EntryKind::Directory,
                Kind::File => EntryKind::File,
                Kind::Link => EntryKind::Link,
                Kind::Other => {
                    found.has_skipped = true;
                    continue;
                }
            };
            let entry =
                Entry { path: &path, kind, stat, parent: directory, name: &name, deadline: self.deadline };
            self.visit_entry(&entry, depth, found, visitor)?;
        }
        Ok(())
    }

    fn visit_entry(
        &self,
        entry: &Entry<'_>,
        depth: usize,
        found: &mut Found,
        visitor: &mut Visitor<'_>,
    ) -> Result<(), Error> {
        let below = match entry.kind {
            EntryKind::Directory => match open_directory(entry.parent, entry.name) {
                Ok(below) => Some(below),
                Err(error) if is_forbidden(&error) => {
                    found.has_skipped = true;
                    return Ok(());
                }
                // It was removed or replaced meanwhile.
                Err(_) => return Err(Error::Changed),
            },
            EntryKind::File | EntryKind::Link => None,
        };
        match visitor(entry)? {
            Visited::Unwanted => return Ok(()),
            Visited::Skipped => found.has_skipped = true,
            Visited::Taken if entry.kind == EntryKind::File => {
                found.bytes = found.bytes.saturating_add(entry.size());
                if found.bytes > self.max_bytes {
                    return Err(Error::TooLarge { max: self.max_bytes });
                }
            }
            Visited::Taken => {}
        }
        match below {
            Some(below) => self.visit_directory(&below, entry.path, depth + 1, found, visitor),
            None => Ok(()),
        }
    }
}

impl Entry<'_> {
    /// Size of a file in bytes.
    pub(super) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// Opens a file, to read as many bytes as it had when it was found. `None` if it may not be read.
    pub(super) fn open(&self) -> Result<Option<Content>, Error> {
        match open_file(self.parent, self.name) {
            Ok(Some((file, _))) => {
                Ok(Some(Content { file, left: self.size(), deadline: self.deadline, fault: None }))
            }
            Ok(None) => Err(Error::Changed),
            Err(error) if is_forbidden(&error) => Ok(None),
            Err(source) => Err(Error::Directory { source }),
        }
    }

    /// Target of a link.
    pub(super) fn target(&self) -> Result<PathBuf, Error> {
        let target = readlinkat(self.parent, self.name, Vec::new()).map_err(|_| Error::Changed)?;
        Ok(PathBuf::from(OsStr::from_bytes(target.to_bytes())))
    }
}

/// Names in a directory. Counts them, so that a huge directory ends the walk before it fills the memory.
fn sorted_names(directory: &OwnedFd, found: &mut Found) -> Result<Vec<CString>, Error> {
    let fault = |errno: Errno| Error::Directory { source: errno.into() };
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(fault)? {
        let name = entry.map_err(fault)?.file_name().to_owned();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        found.entries += 1;
        if found.entries > limits::MAX_DIRECTORY_ENTRIES {
            return Err(Error::TooManyFiles { max: limits::MAX_DIRECTORY_ENTRIES });
        }
        names.push(name);
    }
    names.sort_unstable();
    Ok(names)
}

/// `None` if the entry is gone.
fn stat_of(directory: impl AsFd, name: &CStr) -> Result<Option<Stat>, Error> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::Directory { source: errno.into() }),
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Reads a file, exactly as many bytes as it had when it was found.
pub(super) struct Content {
    file: File,
    left: u64,
    deadline: Instant,
    fault: Option<Error>,
}

impl Content {
    /// Why a read has failed.
    pub(super) fn into_fault(self) -> Option<Error> {
        self.fault
    }

    fn fail(&mut self, fault: Error) -> io::Error {
        self.fault = Some(fault);
        io::Error::other("the file cannot be read to its end")
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        if Instant::now() > self.deadline {
            return Err(self.fail(Error::TooSlow));
        }
        match self.file.read(&mut buffer[..most]) {
            Ok(0) => Err(self.fail(Error::Changed)),
            Ok(read) => {
                self.left -= read as u64;
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(source) => Err(self.fail(Error::Directory { source })),
        }
    }
}
