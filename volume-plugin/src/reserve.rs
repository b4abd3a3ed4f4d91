//! A reserve on a disk for its next mount.
//!
//! Each mount of an overlay makes a directory and a file for a moment. Without an inode and a block for them it fails, and
//! then the user could not remove files from a full disk. So some files are removed before a mount and made again after it.

use std::fs;
use std::path::{Path, PathBuf};

/// Their directory in the disk's root.
pub(crate) const RESERVE: &str = "reserve";

/// Number of the files: inodes for the mount.
const FILES: usize = 4;

/// A block each.
const FILE: [u8; 4096] = [0xff; 4096];

/// The reserve of a disk is free until this is dropped. Errors are ignored: a disk that was full before it had a reserve is
/// mounted without one.
pub(crate) struct Released(PathBuf);

impl Released {
    pub(crate) fn of(disk: &Path) -> Self {
        let released = Self(disk.join(RESERVE));
        for file in released.files() {
            let _ = fs::remove_file(file);
        }
        released
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        (0..FILES).map(|number| self.0.join(number.to_string()))
    }
}

impl Drop for Released {
    fn drop(&mut self) {
        let _ = fs::create_dir(&self.0);
        for file in self.files() {
            let _ = fs::write(file, FILE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_free_until_the_drop() {
        let disk = tempfile::tempdir().unwrap();
        let reserve = disk.path().join(RESERVE);
        for _ in 0..2 {
            drop(Released::of(disk.path()));
            assert_eq!(fs::read_dir(&reserve).unwrap().count(), FILES);
        }
        let _released = Released::of(disk.path());
        assert_eq!(fs::read_dir(&reserve).unwrap().count(), 0);
    }
}
