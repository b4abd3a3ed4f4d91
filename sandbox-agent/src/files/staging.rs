//! Where files are written before they take their place in the workspace.
//!
//! A directory of the same file system beside the workspace, so that a rename is all it takes and nobody who
//! watches or lists the workspace sees what is half there. It is emptied when the agent starts: what an agent that
//! was killed left is nobody's. Commands can reach it, as they can everything of their own user; what they do there
//! fails the write that is under way and nothing else.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt};

use super::tree;

/// Its name.
const NAME: &str = ".sandbox-staging";

/// What keeps caches and temporary files, beside the workspace in the sandbox's volume.
const LOCAL: &str = ".local";

/// The place of the staging directory.
#[derive(Debug)]
pub(super) struct Staging {
    parent: Dir,
}

impl Staging {
    /// For the workspace at `root`; empties what an earlier agent left.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let open = |place: &PathBuf| Dir::open_ambient_dir(place, ambient_authority());
        let beside = root.parent().map(|parent| parent.join(LOCAL));
        let parent = beside.as_ref().map_or_else(|| Err(io::ErrorKind::NotFound.into()), open);
        let parent = parent.or_else(|_| open(&root.to_owned()))?;
        let staging = Self { parent };
        staging.empty();
        Ok(staging)
    }

    /// What cannot be removed takes space and harms nobody.
    fn empty(&self) {
        let Ok(staging) = tree::open_itself(&self.parent, Path::new(NAME)) else { return };
        let Ok(entries) = staging.entries() else { return };
        for name in entries.flatten().map(|entry| PathBuf::from(entry.file_name())) {
            if staging.remove_file(&name).is_err() {
                let _ = tree::clear(&staging, name);
            }
        }
    }

    /// The directory, made where it is missing.
    pub(super) fn dir(&self) -> io::Result<Dir> {
        match self.parent.open_dir(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match self.parent.create_dir_with(NAME, DirBuilder::new().mode(0o700)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.parent.open_dir(NAME),
        }
    }
}

/// A name in the staging directory that nobody else has.
pub(super) fn fresh_name() -> PathBuf {
    PathBuf::from(format!("{:016x}", RandomState::new().hash_one(0)))
}
