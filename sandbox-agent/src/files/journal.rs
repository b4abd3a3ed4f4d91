//! What a change has put in its place, so that it can be taken back.
//!
//! Used by every change of more than one step: a set of files, an archive, a durable write. Commands do not wait for it,
//! so taking back has two rules. Nothing is removed or replaced that is not as the change placed it: what a command
//! has written meanwhile stays. And what the change replaced is never dropped: where it cannot be put back it is moved
//! to [`RECOVERED`] in the workspace, and the caller is told.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use cap_std::fs::{Dir, Metadata, MetadataExt};
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::path::FilePath;
use super::seam::{self, Step};
use super::staging::{Stage, fresh_name};
use super::walk::Walk;
use super::{Workspace, tree};

/// Directory of the workspace for files that a failed change could not put back.
pub(super) const RECOVERED: &str = ".sandbox-recovered";

/// The steps of a change under way.
pub(super) struct Journal<'a> {
    workspace: &'a Workspace,
    stage: &'a Stage,
    placed: Vec<Placed>,
    /// Directories that were not there, in the order they were made.
    pub(super) made: Vec<PathBuf>,
}

/// Something that has taken its place.
struct Placed {
    path: PathBuf,
    identity: Identity,
    /// When a directory took its place, by the file system's clock.
    at: Option<(i64, i64)>,
    /// What it replaced, in the staging directory.
    backup: Option<PathBuf>,
}

/// Which file it is, and whether somebody has written to it. A rename does not change these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Identity {
    fn of(dir: &Dir, name: &Path) -> io::Result<Self> {
        let meta = dir.symlink_metadata(name)?;
        // A directory's own time and size change with what is made in it.
        let (size, modified) =
            if meta.is_dir() { (0, (0, 0)) } else { (meta.size(), (meta.mtime(), meta.mtime_nsec())) };
        Ok(Self { inode: meta.ino(), size, modified })
    }
}

impl<'a> Journal<'a> {
    pub(super) fn new(workspace: &'a Workspace, stage: &'a Stage) -> Self {
        Self { workspace, stage, placed: Vec::new(), made: Vec::new() }
    }

    /// Moves `name` of `from` to `path`, whose directory is `to`. With `replaces` a file is there, which is kept.
    pub(super) fn place(
        &mut self,
        (from, name): (&Dir, &Path),
        to: &Dir,
        path: &Path,
        replaces: bool,
    ) -> io::Result<()> {
        let to_name = Path::new(path.file_name().unwrap_or_default());
        let identity = Identity::of(from, name)?;
        let backup = if replaces { Some(self.back_up(to, to_name)?) } else { None };
        let placed = seam::reached(Step::BackedUp).and_then(|()| from.rename(name, to, to_name));
        if let Err(error) = placed {
            // It is still in its place, so the second name is of no use.
            backup.inspect(|backup| self.stage.discard(backup));
            return Err(error);
        }
        // The rename was the last change of a directory's own.
        let changed = |meta: Metadata| meta.is_dir().then(|| changed_at(&meta));
        let at = to.symlink_metadata(to_name).ok().and_then(changed);
        self.placed.push(Placed { path: path.to_owned(), identity, at, backup });
        seam::reached(Step::Placed)
    }

    fn back_up(&self, to: &Dir, name: &Path) -> io::Result<PathBuf> {
        let backup = fresh_name();
        to.hard_link(name, self.stage, &backup)?;
        Ok(backup)
    }

    /// The change is complete: what it replaced is no longer needed.
    pub(super) fn forget(self) {
        for backup in self.placed.iter().filter_map(|placed| placed.backup.as_deref()) {
            self.stage.discard(backup);
        }
    }

    /// Takes back what was done, last step first. The fault to report: `why`, or that not everything could be put back.
    pub(super) fn undo(self, why: Kind) -> Kind {
        // A command may have changed the staging directory's mode meanwhile.
        self.stage.make_usable();
        let mut lost_place = Vec::new();
        for placed in self.placed.iter().rev() {
            let undone = match &placed.backup {
                Some(backup) => self.put_back(placed, backup),
                None => {
                    // What cannot be taken away is the new file, under its new name or where a command moved it.
                    let _ = self.take_away(placed);
                    Ok(())
                }
            };
            if let (Err(error), Some(backup)) = (undone, &placed.backup) {
                lost_place.push((placed, backup, error));
            }
        }
        self.workspace.remove_made(&self.made);
        let Some((first, _, error)) = lost_place.first() else { return why };
        let (path, errno) = (FilePath::found(first.path.clone()), error.raw_os_error().unwrap_or(0));
        let fault = path.facts(errno);
        for (placed, backup, _) in &lost_place {
            self.recover(placed, backup);
        }
        Kind::NotPutBack(v1::NotPutBack {
            path: fault.path,
            errno,
            files: lost_place.len() as u64,
            kept_in: RECOVERED.into(),
        })
    }

    /// Exchanges the two, because only then it is certain what was replaced.
    fn put_back(&self, placed: &Placed, backup: &Path) -> io::Result<()> {
        let (parent, name) = self.parent_of(placed)?;
        let original = Identity::of(self.stage, backup)?;
        let exchange =
            || rustix::fs::renameat_with(&**self.stage, backup, &parent, name, RenameFlags::EXCHANGE);
        match exchange() {
            Ok(()) => {
                let displaced = Identity::of(self.stage, backup)?;
                if displaced == placed.identity || displaced == original {
                    self.stage.discard(backup);
                    return Ok(());
                }
                // A command's, which stays.
                exchange()?;
                Err(Errno::EXIST.into())
            }
            Err(Errno::NOENT) => {
                tree::rename_with(self.stage, backup.as_os_str(), &parent, name, RenameFlags::NOREPLACE)
            }
            // gVisor has no exchange.
            Err(Errno::INVAL | Errno::NOSYS) => match Identity::of(&parent, Path::new(name)) {
                Ok(there) if there == original => {
                    self.stage.discard(backup);
                    Ok(())
                }
                Ok(there) if there != placed.identity => Err(Errno::EXIST.into()),
                Ok(_) => self.stage.rename(backup, &parent, name),
                Err(error) => Err(error),
            },
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes what the change placed where there was nothing, unless a command has changed it.
    fn take_away(&self, placed: &Placed) -> io::Result<()> {
        let (parent, name) = self.parent_of(placed)?;
        let taken = fresh_name();
        parent.rename(name, self.stage, &taken)?;
        let is_dir = self.stage.symlink_metadata(&taken)?.is_dir();
        let is_as_placed = Identity::of(self.stage, &taken)? == placed.identity
            && placed.at.is_none_or(|at| is_as_it_was(self.stage, &taken, at).unwrap_or(false));
        if !is_as_placed {
            let back =
                tree::rename_with(self.stage, taken.as_os_str(), &parent, name, RenameFlags::NOREPLACE);
            return back.or_else(|_| {
                self.recover(placed, &taken);
                Ok(())
            });
        }
        if is_dir {
            self.stage.discard_tree(taken);
        } else {
            self.stage.discard(&taken);
        }
        Ok(())
    }

    fn parent_of<'p>(&self, placed: &'p Placed) -> io::Result<(Dir, &'p OsStr)> {
        let parent = placed.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = self.workspace.open_dir(parent.unwrap_or(Path::new(".")))?;
        Ok((parent, placed.path.file_name().unwrap_or_default()))
    }

    /// Keeps a file that has no place any more where its owner can find it, or at least where nothing removes it.
    fn recover(&self, placed: &Placed, backup: &Path) {
        let name = placed.path.file_name().unwrap_or_default();
        if self.move_to_recovered(backup, name).is_err() {
            // Where even this fails, the file system refuses every rename, and so every removal.
            let _ = self.stage.keep(backup);
        }
    }

    fn move_to_recovered(&self, from: &Path, name: &OsStr) -> io::Result<()> {
        match self.workspace.dir.create_dir(RECOVERED) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let recovered = tree::open_owned(&self.workspace.dir, Path::new(RECOVERED))?;
        // One directory for each, because several may have the same name.
        let own = fresh_name();
        recovered.create_dir(&own)?;
        let moved = self.stage.rename(from, &recovered, own.join(name));
        moved.inspect_err(|_| drop(recovered.remove_dir(&own)))
    }
}

/// Whether nothing beneath a directory has changed after `at`. Changes within one tick of the file system's clock (4 ms)
/// cannot be told apart.
fn is_as_it_was(stage: &Dir, name: &Path, at: (i64, i64)) -> io::Result<bool> {
    let dir = tree::open_itself(stage, name)?;
    let meta = dir.dir_metadata()?;
    if (meta.mtime(), meta.mtime_nsec()) > at {
        return Ok(false);
    }
    let mut walk = Walk::whole(dir)?;
    while let Some(entry) = walk.next() {
        if changed_at(&entry.dir.symlink_metadata(&entry.name)?) > at {
            return Ok(false);
        }
        if entry.is_dir {
            walk.try_enter(&entry)?;
        }
    }
    Ok(!walk.is_cut())
}

fn changed_at(meta: &Metadata) -> (i64, i64) {
    (meta.ctime(), meta.ctime_nsec())
}

/// Moves what an earlier agent kept in the staging directory to where its owner can find it.
pub(super) fn recover_kept(workspace: &Workspace) {
    // What cannot be moved stays where it is.
    for name in workspace.staging.kept() {
        if let Ok(stage) = workspace.staging.begin() {
            let _ = Journal::new(workspace, &stage).move_to_recovered(&name, name.as_os_str());
        }
    }
}

#[cfg(test)]
mod tests;
