//! Moves a tree from the staging directory into the workspace, and undoes that if it fails.

use std::io;
use std::path::Path;

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use cap_std::fs::Dir;

use super::journal::Journal;
use super::path::FilePath;
use super::staging::StagingHandle;
use super::walk::Walk;
use super::workspace::Workspace;
use crate::limits::MAX_WALK_DEPTH;

/// A running merge. Its caller excludes other changes.
pub(super) struct Merge<'a> {
    workspace: &'a Workspace,
    journal: Journal<'a>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(workspace: &'a Workspace, staging: &'a StagingHandle) -> Self {
        Self { workspace, journal: Journal::new(workspace, staging) }
    }

    /// Moves everything in `tree` into the directory at `to`. Existing directories are merged, and files are
    /// replaced. A file does not replace a directory, and a directory does not replace a file.
    pub(super) fn run(mut self, tree: Dir, to: &FilePath) -> Result<(), Kind> {
        match self.merge(tree, to) {
            Ok(()) => {
                self.journal.complete();
                Ok(())
            }
            Err(kind) => Err(self.journal.undo(kind)),
        }
    }

    fn merge(&mut self, tree: Dir, to: &FilePath) -> Result<(), Kind> {
        let target = self.workspace.open_dir_making(to.as_path(), &mut self.journal.made);
        target.map_err(|error| to.dir_fault(&error))?;
        let fail = |error: io::Error| to.fault(&error);
        let mut walk = Walk::whole(tree).map_err(fail)?;
        while let Some(entry) = walk.next() {
            let path = FilePath::found(to.relative.join(&entry.path));
            let fail = |error: io::Error| path.fault(&error);
            let (parent, name) = path.split_dir()?;
            let parent = self.workspace.open_dir(parent).map_err(fail)?;
            let there = parent.symlink_metadata(name).ok();
            match there {
                Some(there) if entry.is_dir && there.is_dir() => {
                    walk.enter(&entry);
                    continue;
                }
                Some(there) if entry.is_dir || there.is_dir() => {
                    return Err(Kind::AlreadyThere(path.details(0)));
                }
                there => {
                    let from = (&*entry.dir, Path::new(&entry.name));
                    self.journal.install(from, &parent, &path.relative, there.is_some()).map_err(fail)?;
                }
            }
        }
        if walk.is_cut() {
            let (what, limit) = ("levels of directories in the archive".into(), MAX_WALK_DEPTH as u64);
            return Err(Kind::TooMany(v1::TooMany { what, limit }));
        }
        Ok(())
    }
}
