//! The directory where files are written before they are moved into the workspace.
//!
//! It is beside the workspace on the same file system, so a single rename is enough. An unfinished file is never
//! visible in the workspace. It is created with the sandbox's volume in a directory of root, so no command can replace
//! it. A process that may not write to the workspace may not write here either. In a volume without it, a directory in
//! the workspace is used.
//!
//! The directory is emptied when the agent starts. It is also emptied after the last concurrent change if one of them
//! could not remove something. Files that an interrupted change has replaced and could not put back get a special
//! name ([`KEPT`]) and are never removed.

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt};

use super::dirs::{self, fresh_name};

/// Name of the directory in the volume, and in the workspace as a fallback (`sandboxd/crates/model/src/layout.rs`).
const NAME: &str = ".staging";
const FALLBACK: &str = ".sandbox-staging";

/// Prefix of the names that must not be removed.
const KEPT: &str = "kept-";

/// Prefix of the names of the snapshots' caches, which stay until the next snapshot.
pub(crate) const STAT_CACHE: &str = "stat-cache-";

/// Name of the file with the modes that a snapshot has changed and not put back yet.
pub(crate) const CHANGED_MODES: &str = "changed-modes";

/// The staging directory, opened for each change.
#[derive(Debug)]
pub(super) struct Staging {
    parent: Dir,
    name: &'static str,
    usage: Mutex<Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    /// Number of changes that use the directory.
    changes: usize,
    /// One of them could not remove one of its files.
    has_leftovers: bool,
}

impl Staging {
    /// Opens the staging directory of the workspace at `root`, and removes the leftovers of an earlier agent.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let beside = root.parent().filter(|parent| parent.join(NAME).is_dir());
        let (parent, name) = beside.map_or((root, FALLBACK), |parent| (parent, NAME));
        let parent = Dir::open_ambient_dir(parent, ambient_authority())?;
        let staging = Self { parent, name, usage: Mutex::default() };
        staging.empty();
        Ok(staging)
    }

    /// Removes everything that no change uses. What cannot be removed only takes space.
    fn empty(&self) {
        let Ok(staging) = dirs::open_owned(&self.parent, Path::new(self.name)) else { return };
        let Ok(entries) = staging.entries() else { return };
        for name in entries.flatten().map(|entry| PathBuf::from(entry.file_name())) {
            if !is_kept(&name) && !is_of_snapshots(&name) && staging.remove_file(&name).is_err() {
                let _ = dirs::remove_tree(&staging, name);
            }
        }
    }

    /// Returns the names that must not be removed.
    pub(super) fn kept(&self) -> Vec<PathBuf> {
        let names = dirs::open_owned(&self.parent, Path::new(self.name)).and_then(|staging| {
            Ok(staging.entries()?.flatten().map(|entry| PathBuf::from(entry.file_name())).collect())
        });
        let mut names: Vec<PathBuf> = names.unwrap_or_default();
        names.retain(|name| is_kept(name));
        names
    }

    /// Opens the directory for one change.
    pub(super) fn begin(self: &Arc<Self>) -> io::Result<StagingHandle> {
        // Locked while the directory is opened, so that it is not emptied in between.
        let mut usage = self.usage();
        let dir = self.dir()?;
        usage.changes += 1;
        Ok(StagingHandle { staging: Arc::clone(self), dir })
    }

    /// Opens the directory. Creates it if it is missing, and restores its mode if a command has changed it.
    fn dir(&self) -> io::Result<Dir> {
        let open = || dirs::open_owned(&self.parent, Path::new(self.name));
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match self.parent.create_dir_with(self.name, DirBuilder::new().mode(0o700)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => open(),
        }
    }

    /// A panic while the lock was held leaves counts that only delay a removal.
    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The staging directory, in use by one change.
#[derive(Debug)]
pub(crate) struct StagingHandle {
    staging: Arc<Staging>,
    dir: Dir,
}

impl StagingHandle {
    /// Removes a file, now or after the last concurrent change.
    pub(crate) fn discard(&self, name: &Path) {
        if self.dir.remove_file(name).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            self.mark_leftovers();
        }
    }

    /// Removes a directory with everything beneath it, now or after the last concurrent change.
    pub(super) fn discard_tree(&self, name: PathBuf) {
        if dirs::remove_tree(&self.dir, name).is_err() {
            self.mark_leftovers();
        }
    }

    /// Records that the directory has a leftover to remove.
    pub(crate) fn mark_leftovers(&self) {
        self.staging.usage().has_leftovers = true;
    }

    /// Restores the mode that lets the owner use the directory.
    pub(super) fn make_usable(&self) {
        // If this fails, the operation that needs it fails too.
        let _ = self.staging.dir();
    }

    /// Renames a file so that nothing removes it.
    pub(super) fn keep(&self, name: &Path) -> io::Result<()> {
        let kept = format!("{KEPT}{}", fresh_name().display());
        self.dir.rename(name, &self.dir, kept)
    }
}

impl Deref for StagingHandle {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        &self.dir
    }
}

impl Drop for StagingHandle {
    fn drop(&mut self) {
        let mut usage = self.staging.usage();
        usage.changes -= 1;
        if usage.changes == 0 && std::mem::take(&mut usage.has_leftovers) {
            self.staging.empty();
        }
    }
}

/// Whether the snapshots use it and remove it.
fn is_of_snapshots(name: &Path) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(STAT_CACHE) || name == CHANGED_MODES)
}

fn is_kept(name: &Path) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(KEPT))
}
