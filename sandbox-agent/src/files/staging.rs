//! Where files are written before they take their place in the workspace.
//!
//! A directory of the same file system beside the workspace, so that a rename is all it takes and nobody who
//! watches or lists the workspace sees what is half there. It is made with the sandbox's volume, in a directory of
//! root's, so no command can put something else in its place; what may not write to the workspace may not write here
//! either. In a volume without it a directory of the workspace stands in.
//!
//! The directory is emptied when the agent starts, and when the last of the changes that use it ends and one of them
//! could not remove something. What an interrupted change has replaced and could not put back has a name of its own
//! ([`KEPT`]); it is never removed.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt};

use super::tree;

/// Its name in the volume, and in the workspace where it stands in (`sandboxd/crates/model/src/layout.rs`).
const NAME: &str = ".staging";
const STAND_IN: &str = ".sandbox-staging";

/// How the names of files begin that must not be removed.
const KEPT: &str = "kept-";

/// The place of the staging directory.
#[derive(Debug)]
pub(super) struct Staging {
    parent: Dir,
    name: &'static str,
    usage: Mutex<Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    /// Changes that use the directory now.
    changes: usize,
    /// One of them could not remove something of its own.
    has_leftovers: bool,
}

impl Staging {
    /// For the workspace at `root`; empties what an earlier agent left.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let beside = root.parent().filter(|parent| parent.join(NAME).is_dir());
        let (parent, name) = beside.map_or((root, STAND_IN), |parent| (parent, NAME));
        let parent = Dir::open_ambient_dir(parent, ambient_authority())?;
        let staging = Self { parent, name, usage: Mutex::default() };
        staging.empty();
        Ok(staging)
    }

    /// Removes what no change uses. What cannot be removed takes space and harms nobody.
    fn empty(&self) {
        let Ok(staging) = tree::open_owned(&self.parent, Path::new(self.name)) else { return };
        let Ok(entries) = staging.entries() else { return };
        for name in entries.flatten().map(|entry| PathBuf::from(entry.file_name())) {
            if !is_kept(&name) && staging.remove_file(&name).is_err() {
                let _ = tree::clear(&staging, name);
            }
        }
    }

    /// The names of what must not be removed.
    pub(super) fn kept(&self) -> Vec<PathBuf> {
        let names = tree::open_owned(&self.parent, Path::new(self.name)).and_then(|staging| {
            Ok(staging.entries()?.flatten().map(|entry| PathBuf::from(entry.file_name())).collect())
        });
        let mut names: Vec<PathBuf> = names.unwrap_or_default();
        names.retain(|name| is_kept(name));
        names
    }

    /// The directory for one change.
    pub(super) fn begin(self: &Arc<Self>) -> io::Result<Stage> {
        // Held while the directory is opened, so that it is not emptied between the two.
        let mut usage = self.usage();
        let dir = self.dir()?;
        usage.changes += 1;
        Ok(Stage { staging: Arc::clone(self), dir })
    }

    /// The directory, made where it is missing, and made usable where a command has changed its mode.
    fn dir(&self) -> io::Result<Dir> {
        let open = || tree::open_owned(&self.parent, Path::new(self.name));
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match self.parent.create_dir_with(self.name, DirBuilder::new().mode(0o700)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => open(),
        }
    }

    /// A panic while it was held leaves counts that only delay a removal.
    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The staging directory while a change uses it.
#[derive(Debug)]
pub(super) struct Stage {
    staging: Arc<Staging>,
    dir: Dir,
}

impl Stage {
    /// Removes a file, now or when the last change ends.
    pub(super) fn discard(&self, name: &Path) {
        if self.dir.remove_file(name).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            self.leave();
        }
    }

    /// Removes a directory with all that is beneath it, now or when the last change ends.
    pub(super) fn discard_tree(&self, name: PathBuf) {
        if tree::clear(&self.dir, name).is_err() {
            self.leave();
        }
    }

    /// Something is left here that is nobody's.
    pub(super) fn leave(&self) {
        self.staging.usage().has_leftovers = true;
    }

    /// Gives the directory back the mode that lets its owner use it.
    pub(super) fn make_usable(&self) {
        // Where this fails, so does what needs it.
        let _ = self.staging.dir();
    }

    /// Gives a file a name under which nothing removes it.
    pub(super) fn keep(&self, name: &Path) -> io::Result<()> {
        let kept = format!("{KEPT}{}", fresh_name().display());
        self.dir.rename(name, &self.dir, kept)
    }
}

impl Deref for Stage {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        &self.dir
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let mut usage = self.staging.usage();
        usage.changes -= 1;
        if usage.changes == 0 && std::mem::take(&mut usage.has_leftovers) {
            self.staging.empty();
        }
    }
}

fn is_kept(name: &Path) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(KEPT))
}

/// A name in the staging directory that nobody else has.
pub(super) fn fresh_name() -> PathBuf {
    PathBuf::from(format!("{:016x}", RandomState::new().hash_one(0)))
}
