//! The directories that the walk of a snapshot is in, from a root to the current one.

use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Stat};
use snapshot_format::Entry;

use super::Stop;
use super::names::Names;
use super::tree_writer::TreeWriter;
use super::unreadable::Opened;
use crate::limits::MAX_SNAPSHOT_DEPTH;

/// An entry of a directory, as the walk has found it.
pub(super) struct Found<'a> {
    pub(super) dir: BorrowedFd<'a>,
    pub(super) name: &'a [u8],
    /// Its path from the volume.
    pub(super) path: &'a [u8],
    pub(super) stat: Stat,
    /// Whether the cache stands in its directory.
    pub(super) is_known: bool,
}

impl Found<'_> {
    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
}

/// A directory whose entries are being read.
pub(super) struct Directory {
    pub(super) opened: Opened,
    /// Length of its path.
    pub(super) path_bytes: usize,
    pub(super) names: Names,
    /// Number of names that were visited.
    pub(super) visited: usize,
    /// The entries so far.
    pub(super) tree: TreeWriter,
    /// Whether the cache stands in it.
    pub(super) is_known: bool,
    /// Its own entry, without the content.
    pub(super) entry: Entry,
}

/// The open directories. If the walk fails, the innermost one is closed first: its mode is put back while the mode of
/// the outer one still allows that.
pub(super) struct OpenDirectories(Vec<Directory>);

impl OpenDirectories {
    pub(super) fn new(root: Directory) -> Self {
        Self(vec![root])
    }

    pub(super) fn current(&mut self) -> Option<&mut Directory> {
        self.0.last_mut()
    }

    /// Goes into a directory of the current one. Fails if it is too deep.
    pub(super) fn enter(&mut self, child: Directory, path: &[u8]) -> Result<(), Stop> {
        if self.0.len() == MAX_SNAPSHOT_DEPTH {
            let problem = format!("a directory is deeper than {MAX_SNAPSHOT_DEPTH} levels");
            return Err(Stop::rejected(path, problem));
        }
        self.0.push(child);
        Ok(())
    }

    /// Goes out of the current directory.
    pub(super) fn leave(&mut self) -> Directory {
        self.0.pop().expect("there is a current directory")
    }
}

impl Drop for OpenDirectories {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}
