//! A file that only takes space, to be given up when the disk is full: deleting takes space as well.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "sandboxd.ballast";

/// Its size: what the log grows to before it begins anew, the shared memory file, and a large removal.
const BYTES: usize = 2 * 1024 * 1024;

/// What must be free beyond the ballast before it is made again, so that it does not take what it gave.
const MARGIN_BYTES: u64 = 2 * BYTES as u64;

/// Less than this is a full disk.
const FULL_BYTES: u64 = 64 * 1024;

/// What writes that can wait leave free, so that the ballast, once given up, serves those that cannot.
const RESERVE_BYTES: u64 = BYTES as u64 / 2;

#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
}

impl Ballast {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join(FILE) }
    }

    /// Gives the space back; says whether there was any.
    pub(super) fn give_up(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }

    /// Makes it where it is missing and there is room; says whether it is there.
    pub(super) fn restore(&self) -> io::Result<bool> {
        if fs::metadata(&self.path).is_ok_and(|found| found.len() == BYTES as u64) {
            return Ok(true);
        }
        if free_bytes(&self.path).is_some_and(|free| free < BYTES as u64 + MARGIN_BYTES) {
            return Ok(false);
        }
        self.make().inspect_err(|_| {
            self.give_up();
        })?;
        Ok(true)
    }

    fn make(&self) -> io::Result<()> {
        // Random, because a file system may keep zeroes without taking space for them.
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

/// Whether what is left on the file system of `path` is for writes that cannot wait.
pub(super) fn is_reserve(path: &Path) -> bool {
    free_bytes(path).is_some_and(|free| free < RESERVE_BYTES)
}

fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path.parent()?).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
