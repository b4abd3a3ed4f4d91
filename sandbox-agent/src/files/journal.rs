//! Records the steps of a change, so that it can be undone.
//!
//! Every change of more than one step uses it: a set of files, an archive, a durable write. Commands run concurrently,
//! so undoing has two rules. It never removes or replaces anything that differs from what the change created, so files
//! that a command has written meanwhile are kept. It never drops a replaced file. If a file cannot be put back, it is
//! moved to [`RECOVERED`] in the workspace, and the error says so.
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use cap_std::fs::{Dir, Metadata, MetadataExt};
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::dirs::{self, fresh_name};
use super::path::FilePath;
use super::seam::{self, Step};
use super::staging::StagingHandle;
use super::walk::Walk;
use super::workspace::Workspace;

/// Directory of the workspace for files that a failed change could not put back.
pub(super) const RECOVERED: &str = ".sandbox-recovered";

/// The steps of a running change.
pub(super) struct Journal<'a> {
    workspace: &'a Workspace,
    stage: &'a StagingHandle,
    placed: Vec<Placed>,
    /// Directories that the change created, in order.
    pub(super) made: Vec<PathBuf>,
}

/// A file or directory that the change put at its destination.
struct Placed {
    path: PathBuf,
    identity: Identity,
    /// If it is a directory, the time when it was placed, by the file system's clock.
    at: Option<(i64, i64)>,
    /// The replaced file in the staging directory.
    backup: Option<PathBuf>,
}

/// Identifies a file and its content. A rename does not change these values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Identity {
    fn of(dir: &Dir, name: &Path) -> io::Result<Self> {
        let meta = dir.symlink_metadata(name)?;
        // A directory's own time and size change when entries are created in it.
        let (size, modified) =
            if meta.is_dir() { (0, (0, 0)) } else { (meta.size(), (meta.mtime(), meta.mtime_nsec())) };
        Ok(Self { inode: meta.ino(), size, modified })
    }
}

impl<'a> Journal<'a> {
    pub(super) fn new(workspace: &'a Workspace, stage: &'a StagingHandle) -> Self {
        Self { workspace, stage, placed: Vec::new(), made: Vec::new() }
    }

    /// Moves `name` of `from` to `path`, whose directory is `to`. With `replaces` there is a file, and a backup is
    /// kept.
    pub(super) fn install(
        &mut self,
        (from, name): (&Dir, &Path),
        to: &Dir,
        path: &Path,
        replaces: bool,
    ) -> io::Result<()> {
        let to_name = Path::new(path.file_name().unwrap_or_default());
        let identity = Identity::of(from, name)?;
        let backup = if replaces { Some(self.create_backup(to, to_name)?) } else { None };
        let placed = seam::reached(Step::BackedUp).and_then(|()| from.rename(name, to, to_name));
        if let Err(error) = placed {
            // The file is still at its destination, so the backup is not needed.
            backup.inspect(|backup| self.stage.discard(backup));
            return Err(error);
        }
        // The rename was the last change to the directory itself.
        let changed = |meta: Metadata| meta.is_dir().then(|| changed_at(&meta));
        let at = to.symlink_metadata(to_name).ok().and_then(changed);
        self.placed.push(Placed { path: path.to_owned(), identity, at, backup });
        seam::reached(Step::Placed)
    }

    fn create_backup(&self, to: &Dir, name: &Path) -> io::Result<PathBuf> {
        let backup = fresh_name();
        to.hard_link(name, self.stage, &backup)?;
        Ok(backup)
    }

    /// Completes the change. The backups are no longer needed.
    pub(super) fn complete(self) {
        for backup in self.placed.iter().filter_map(|placed| placed.backup.as_deref()) {
            self.stage.discard(backup);
        }
    }

    /// Undoes the steps, the last one first. Returns the error to report: `cause`, or that not everything could be
    /// put back.
    pub(super) fn undo(self, cause: Kind) -> Kind {
        // A command may have changed the staging directory's mode meanwhile.
        self.stage.make_usable();
        let mut lost_place = Vec::new();
        for placed in self.placed.iter().rev() {
            let undone = match &placed.backup {
                Some(backup) => self.restore(placed, backup),
                None => {
                    // The file that cannot be removed is the new one, under its new name or where a command moved it.
                    let _ = self.remove_placed(placed);
                    Ok(())
                }
            };
            if let (Err(error), Some(backup)) = (undone, &placed.backup) {
                lost_place.push((placed, backup, error));
            }
        }
        self.workspace.remove_made(&self.made);
        let Some((first, _, error)) = lost_place.first() else { return cause };
        let (path, errno) = (FilePath::found(first.path.clone()), error.raw_os_error().unwrap_or(0));
        let fault = path.details(errno);
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

    /// Exchanges the two files, because only then the replaced file is known for certain.
    fn restore(&self, placed: &Placed, backup: &Path) -> io::Result<()> {
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
                // It is a command's file, which must be kept.
                exchange()?;
                Err(Errno::EXIST.into())
            }
            Err(Errno::NOENT) => {
                dirs::rename_with(self.stage, backup.as_os_str(), &parent, name, RenameFlags::NOREPLACE)
            }
            // gVisor does not support the exchange.
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

    /// Removes what the change created, unless a command has changed it.
    fn remove_placed(&self, placed: &Placed) -> io::Result<()> {
        let (parent, name) = self.parent_of(placed)?;
        let taken = fresh_name();
        parent.rename(name, self.stage, &taken)?;
        let is_dir = self.stage.symlink_metadata(&taken)?.is_dir();
        let is_as_placed = Identity::of(self.stage, &taken)? == placed.identity
            && placed.at.is_none_or(|at| is_unchanged(self.stage, &taken, at).unwrap_or(false));
        if !is_as_placed {
            let back =
                dirs::rename_with(self.stage, taken.as_os_str(), &parent, name, RenameFlags::NOREPLACE);
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

    /// Keeps a file that cannot be put back: in the workspace if possible, or else where nothing removes it.
    fn recover(&self, placed: &Placed, backup: &Path) {
        let name = placed.path.file_name().unwrap_or_default();
        if self.move_to_recovered(backup, name).is_err() {
            // If even this fails, the file system rejects every rename, and so also every removal.
            let _ = self.stage.keep(backup);
        }
    }

    fn move_to_recovered(&self, from: &Path, name: &OsStr) -> io::Result<()> {
        match self.workspace.dir.create_dir(RECOVERED) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let recovered = dirs::open_owned(&self.workspace.dir, Path::new(RECOVERED))?;
        // Each gets its own directory, because several may have the same name.
        let own = fresh_name();
        recovered.create_dir(&own)?;
        let moved = self.stage.rename(from, &recovered, own.join(name));
        moved.inspect_err(|_| drop(recovered.remove_dir(&own)))
    }
}

/// Whether nothing beneath a directory has changed after `at`. Changes within one tick of the file system's clock (4
/// ms) cannot be distinguished.
fn is_unchanged(stage: &Dir, name: &Path, at: (i64, i64)) -> io::Result<bool> {
    let dir = dirs::open_no_follow(stage, name)?;
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

/// Moves files that an earlier agent kept in the staging directory to where the user can find them.
pub(super) fn recover_kept(workspace: &Workspace) {
    // A file that cannot be moved stays where it is.
    for name in workspace.staging.kept() {
        if let Ok(stage) = workspace.staging.begin() {
            let _ = Journal::new(workspace, &stage).move_to_recovered(&name, name.as_os_str());
        }
    }
}
