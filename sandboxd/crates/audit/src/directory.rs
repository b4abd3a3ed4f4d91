//! The directory of the record and its files. No symbolic link is followed, neither in the directory's place nor in a
//! file's.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags};

use crate::Error;

const PREFIX: &str = "audit-";
const SUFFIX: &str = ".ndjson";

/// Name of a file that replaces another one.
const REPLACEMENT: &str = "replacement";

/// Name of the reserve.
const RESERVE: &str = "reserve";

/// A directory with the files of a record. A file's number says when it was begun.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    dir: OwnedFd,
}

impl Directory {
    /// Opens a directory for reading.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = fs::open(path, flags, Mode::empty());
        let dir = dir.map_err(|error| Error::Io { path: path.to_owned(), source: error.into() })?;
        Ok(Self { path: path.to_owned(), dir })
    }

    /// Opens or creates a directory for writing. Fails if another daemon writes into it.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        // The directory above it has to exist, so that a typing error creates nothing.
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created.map_err(|source| Error::Io { path: path.to_owned(), source })?,
        }
        let opened = Self::open(path)?;
        match fs::flock(&opened.dir, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::InUse { path: path.to_owned() }),
            Err(error) => Err(opened.error(error.into())),
            Ok(()) => Ok(opened),
        }
    }

    /// Numbers of the files, in order.
    pub(crate) fn numbers(&self) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        for entry in fs::Dir::read_from(&self.dir).map_err(|error| self.error(error.into()))? {
            let entry = entry.map_err(|error| self.error(error.into()))?;
            numbers.extend(entry.file_name().to_str().ok().and_then(number_of));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Opens a file for reading.
    pub(crate) fn read(&self, number: u64) -> Result<File, Error> {
        self.open_file(number, OFlags::RDONLY)
    }

    /// Opens a file for writing.
    pub(crate) fn write(&self, number: u64) -> Result<File, Error> {
        self.open_file(number, OFlags::RDWR)
    }

    /// Opens or creates the file of the reserve.
    pub(crate) fn reserve(&self) -> Result<File, Error> {
        let path = || self.path.join(RESERVE);
        self.open_named(RESERVE, path, OFlags::RDWR | OFlags::CREATE)
    }

    /// Begins a file that will [replace](Self::finish_replacement) another one. One that was left is emptied.
    pub(crate) fn begin_replacement(&self) -> Result<File, Error> {
        let path = || self.path.join(REPLACEMENT);
        let file = self.open_named(REPLACEMENT, path, OFlags::RDWR | OFlags::CREATE)?;
        file.set_len(0).map_err(|source| Error::Io { path: path(), source })?;
        Ok(file)
    }

    /// Puts the replacement in the place of a file. Durable after a [`sync`](Self::sync).
    pub(crate) fn finish_replacement(&self, number: u64) -> Result<(), Error> {
        let moved = fs::renameat(&self.dir, REPLACEMENT, &self.dir, name(number));
        moved.map_err(|error| self.error_at(number, error.into()))
    }

    /// Creates a file, or opens one that is empty. Its name is durable after a [`sync`](Self::sync).
    pub(crate) fn begin(&self, number: u64) -> Result<File, Error> {
        let file = self.open_file(number, OFlags::RDWR | OFlags::CREATE)?;
        let at_file = |source| self.error_at(number, source);
        if file.metadata().map_err(at_file)?.len() > 0 {
            return Err(self.error_at(number, io::ErrorKind::AlreadyExists.into()));
        }
        Ok(file)
    }

    fn open_file(&self, number: u64, access: OFlags) -> Result<File, Error> {
        self.open_named(&name(number), || self.path_of(number), access)
    }

    fn open_named(&self, name: &str, path: impl Fn() -> PathBuf, access: OFlags) -> Result<File, Error> {
        let at_file = |source| Error::Io { path: path(), source };
        // Does not wait for the writer of a pipe in a file's place.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR);
        let file: File = opened.map_err(|error| at_file(error.into()))?.into();
        match file.metadata().map_err(at_file)?.is_file() {
            true => Ok(file),
            false => Err(at_file(io::Error::other("not a regular file"))),
        }
    }

    /// Removes a file. Succeeds if it does not exist.
    pub(crate) fn remove(&self, number: u64) -> Result<(), Error> {
        match fs::unlinkat(&self.dir, name(number), AtFlags::empty()) {
            Err(rustix::io::Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(self.error_at(number, error.into())),
        }
    }

    /// Makes the names of the files durable.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        fs::fsync(&self.dir).map_err(|error| self.error(error.into()))
    }

    /// Path of a file, for messages.
    pub(crate) fn path_of(&self, number: u64) -> PathBuf {
        self.path.join(name(number))
    }

    pub(crate) fn error_at(&self, number: u64, source: io::Error) -> Error {
        Error::Io { path: self.path_of(number), source }
    }

    fn error(&self, source: io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }
}

/// Name of a file.
pub(crate) fn name(number: u64) -> String {
    format!("{PREFIX}{number:08}{SUFFIX}")
}

fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok()?;
    // Another spelling of the number is another file.
    (self::name(number) == name && number > 0).then_some(number)
}
