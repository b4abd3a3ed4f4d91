//! A file that only reserves space. It is deleted when the disk is full, because deleting rows takes space as well.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "sandboxd.ballast";

/// Size of the file: the maximum size of the write-ahead log, plus the shared memory file, plus the deletion of many
/// rows.
const BYTES: usize = 2 * 1024 * 1024;

/// Space that must be free beyond the ballast before it is created again, so that it does not take space that other
/// programs need.
const MARGIN_BYTES: u64 = 2 * BYTES as u64;

/// A disk with less free space counts as full.
const FULL_BYTES: u64 = 64 * 1024;

/// Space that ordinary writes leave free, so that urgent writes can use the space of a deleted ballast.
const RESERVE_BYTES: u64 = BYTES as u64 / 2;

#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
}

impl Ballast {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join(FILE) }
    }

    /// Deletes the file. Returns whether there was one.
    pub(super) fn delete(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }

    /// Creates the file if it is missing and there is space for it.
    pub(super) fn restore(&self) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|found| found.len() == BYTES as u64) {
            return Ok(());
        }
        if free_bytes(&self.path).is_some_and(|free| free < BYTES as u64 + MARGIN_BYTES) {
            return Ok(());
        }
        self.create().inspect_err(|_| {
            self.delete();
        })
    }

    fn create(&self) -> io::Result<()> {
        // Random, because a file system may store zeroes without taking space for them.
        let mut bytes = vec![0; BYTES];
        getrandom::fill(&mut bytes)?;
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&self.path)?;
        file.write_all(&bytes)?;
        file.sync_all()
    }
}

/// Whether the file system of `path` has no space left.
pub(super) fn is_full(path: &Path) -> bool {
    free_bytes(path).is_some_and(|free| free < FULL_BYTES)
}

/// Whether the space left on the file system of `path` is reserved for urgent writes.
pub(super) fn is_reserved(path: &Path) -> bool {
    free_bytes(path).is_some_and(|free| free < RESERVE_BYTES)
}

fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path.parent()?).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
