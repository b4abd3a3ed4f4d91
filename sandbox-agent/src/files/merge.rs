//! Moves a tree from the staging directory into the workspace, and takes it back where that fails in the middle.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use cap_std::fs::Dir;

use super::Workspace;
use super::path::FilePath;
use super::staging::fresh_name;
use super::tree;
use super::walk::Walk;
use crate::limits::MAX_WALK_DEPTH;

/// A merge under way. Whoever runs it holds off other changes.
pub(super) struct Merge<'a> {
    workspace: &'a Workspace,
    staging: &'a Dir,
    done: Vec<Step>,
    /// Directories that were made for it, from the top down.
    made: Vec<PathBuf>,
}

/// Something that has taken its place.
struct Step {
    path: PathBuf,
    /// What it replaced, in the staging directory.
    backup: Option<PathBuf>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(workspace: &'a Workspace, staging: &'a Dir) -> Self {
        Self { workspace, staging, done: Vec::new(), made: Vec::new() }
    }

    /// Gives everything in `tree` its place in the directory at `to`. Directories that are there take up what comes;
    /// files are replaced; a file does not replace a directory, nor a directory a file.
    pub(super) fn run(mut self, tree: Dir, to: &FilePath) -> Result<(), Kind> {
        let merged = self.merge(tree, to);
        match &merged {
            Ok(()) => self.forget(),
            Err(_) => self.undo(),
        }
        merged
    }

    fn merge(&mut self, tree: Dir, to: &FilePath) -> Result<(), Kind> {
        let target = self.workspace.open_dir_making(to.as_path(), &mut self.made);
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
                    return Err(Kind::AlreadyThere(path.facts(0)));
                }
                Some(_) => {
                    let backup = fresh_name();
                    parent.hard_link(name, self.staging, &backup).map_err(fail)?;
                    self.done.push(Step { path: path.relative.clone(), backup: Some(backup) });
                    entry.dir.rename(&entry.name, &parent, name).map_err(fail)?;
                }
                None => {
                    entry.dir.rename(&entry.name, &parent, name).map_err(fail)?;
                    self.done.push(Step { path: path.relative.clone(), backup: None });
                }
            }
        }
        if walk.is_cut() {
            let (what, limit) = ("levels of directories in the archive".into(), MAX_WALK_DEPTH as u64);
            return Err(Kind::TooMany(v1::TooMany { what, limit }));
        }
        Ok(())
    }

    fn undo(&self) {
        for Step { path, backup } in self.done.iter().rev() {
            let path = FilePath::found(path.clone());
            let Ok((parent, name)) = path.split_dir() else { continue };
            let Ok(parent) = self.workspace.open_dir(parent) else { continue };
            // What a command took away meanwhile cannot be put back, and that is what it wanted.
            let _ = match backup {
                Some(backup) => self.staging.rename(backup, &parent, name),
                None => self.take_away(&parent, name),
            };
        }
        for dir in self.made.iter().rev() {
            let _ = self.workspace.dir.remove_dir(dir);
        }
    }

    fn take_away(&self, parent: &Dir, name: &OsStr) -> io::Result<()> {
        if !parent.symlink_metadata(name)?.is_dir() {
            return parent.remove_file(name);
        }
        let gone = fresh_name();
        parent.rename(name, self.staging, &gone)?;
        tree::clear(self.staging, gone).map(drop)
    }

    fn forget(&self) {
        for backup in self.done.iter().filter_map(|step| step.backup.as_deref()) {
            let _ = self.staging.remove_file(Path::new(backup));
        }
    }
}
