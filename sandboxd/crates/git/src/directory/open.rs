//! Opens what is in a directory, without following links and without waiting for the writer of a FIFO.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, statat};
use rustix::io::Errno;

use crate::Error;

const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
const DIRECTORY: OFlags = FILE.union(OFlags::DIRECTORY);

/// What a name in a directory stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    Link,
    /// A socket, a FIFO or a device.
    Other,
}

impl Kind {
    pub(super) fn of_stat(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Self::Directory,
            FileType::RegularFile => Self::File,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }

    /// `None` if there is nothing with this name.
    pub(super) fn of(directory: impl AsFd, name: &CStr) -> Result<Option<Self>, Error> {
        match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Self::of_stat(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::Directory { source: errno.into() }),
        }
    }
}

/// Opens the directory that the operator allows. Links in this path are the operator's.
pub(super) fn open_path(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty())?)
}

pub(super) fn open_directory(parent: impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
    Ok(openat(parent, name, DIRECTORY, Mode::empty())?)
}

/// Opens a regular file. `None` if something else has its name by now.
pub(super) fn open_file(parent: impl AsFd, name: &CStr) -> io::Result<Option<(File, Stat)>> {
    let file = match openat(parent, name, FILE, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let stat = fstat(&file)?;
    Ok((Kind::of_stat(&stat) == Kind::File).then(|| (file.into(), stat)))
}

/// The beginning of a file below a directory. `None` if there is no regular file that can be read.
pub(super) fn read_small(root: &OwnedFd, path: &[&str], max_bytes: usize) -> Result<Option<Vec<u8>>, Error> {
    match read_below(root, path, max_bytes) {
        Ok(found) => Ok(found),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            _ => Err(Error::Directory { source: error }),
        },
    }
}

fn read_below(root: &OwnedFd, path: &[&str], max_bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let Some((name, parents)) = path.split_last() else { return Ok(None) };
    let mut parent = root.try_clone()?;
    for name in parents {
        parent = open_directory(&parent, &CString::new(*name)?)?;
    }
    let Some((file, _)) = open_file(&parent, &CString::new(*name)?)? else { return Ok(None) };
    let mut content = Vec::new();
    file.take(max_bytes as u64).read_to_end(&mut content)?;
    Ok(Some(content))
}
