//! Where files are written before they take their place in the workspace.
//!
//! A directory of the same file system beside the workspace, so that a rename is all it takes and nobody who
//! watches or lists the workspace sees what is half there. It is made with the sandbox's volume, in a directory of
//! root's, so no command can put something else in its place; what may not write to the workspace may not write here
//! either. It is emptied when the agent starts: what an agent that was killed left is nobody's. In a volume without
//! it a directory of the workspace stands in.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt};

use super::tree;

/// Its name in the volume, and in the workspace where it stands in (`sandboxd/src/model/layout.rs`).
const NAME: &str = ".staging";
const STAND_IN: &str = ".sandbox-staging";

/// The place of the staging directory.
#[derive(Debug)]
pub(super) struct Staging {
    parent: Dir,
    name: &'static str,
}

impl Staging {
    /// For the workspace at `root`; empties what an earlier agent left.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let beside = root.parent().filter(|parent| parent.join(NAME).is_dir());
        let (parent, name) = beside.map_or((root, STAND_IN), |parent| (parent, NAME));
        let staging = Self { parent: Dir::open_ambient_dir(parent, ambient_authority())?, name };
        staging.empty();
        Ok(staging)
    }

    /// What cannot be removed takes space and harms nobody.
    fn empty(&self) {
        let Ok(staging) = tree::open_owned(&self.parent, Path::new(self.name)) else { return };
        let Ok(entries) = staging.entries() else { return };
        for name in entries.flatten().map(|entry| PathBuf::from(entry.file_name())) {
            if staging.remove_file(&name).is_err() {
                let _ = tree::clear(&staging, name);
            }
        }
    }

    /// The directory, made where it is missing, and made usable where a command has changed its mode.
    pub(super) fn dir(&self) -> io::Result<Dir> {
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
}

/// A name in the staging directory that nobody else has.
pub(super) fn fresh_name() -> PathBuf {
    PathBuf::from(format!("{:016x}", RandomState::new().hash_one(0)))
}
