//! Operations on directories that are open as descriptors, for the staging directory and the workspace.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::pinned::Pinned;

/// Mode that lets the owner of a directory move its contents.
const OWNER_ONLY: Mode = Mode::RWXU;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Calls renameat2(2), or emulates its flags where the kernel lacks them (gVisor).
pub(super) fn rename_with(
    from: &Dir,
    from_name: &OsStr,
    to: &Dir,
    to_name: &OsStr,
    flags: RenameFlags,
) -> io::Result<()> {
    match rustix::fs::renameat_with(from, from_name, to, to_name, flags) {
        Err(Errno::INVAL | Errno::NOSYS) if flags.contains(RenameFlags::NOREPLACE) => {
            // Other callers are excluded here. A command may interfere, as it may at any other time.
            if exists(to, Path::new(to_name)) {
                return Err(Errno::EXIST.into());
            }
            from.rename(from_name, to, to_name)
        }
        done => Ok(done?),
    }
}

/// Whether an entry of any kind exists.
fn exists(dir: &Dir, name: &Path) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// A directory can only be moved by a user that may write to it, even by its owner.
pub(crate) fn make_movable(parent: &Dir, name: &OsStr) {
    // If this fails, the move fails too.
    let _ = open_owned(parent, Path::new(name));
}

/// Opens a directory that must not be a link, and lets its owner move its contents.
pub(super) fn open_owned(parent: &Dir, name: &Path) -> io::Result<Dir> {
    let dir = open_no_follow(parent, name).or_else(|error| {
        if error.kind() != io::ErrorKind::PermissionDenied {
            return Err(error);
        }
        let pinned = Pinned::open(parent, name)?;
        if FileType::from_raw_mode(pinned.stat().st_mode) != FileType::Directory {
            return Err(error);
        }
        pinned.set_mode(OWNER_ONLY)?;
        Ok(opened_dir(pinned.reopen(DIRECTORY)?))
    })?;
    // The directory of another user is used as it is.
    let _ = dir.set_permissions(".", Permissions::from_mode(OWNER_ONLY.as_raw_mode()));
    Ok(dir)
}

/// Opens a directory that must not be a link.
pub(super) fn open_no_follow(parent: &Dir, name: &Path) -> io::Result<Dir> {
    Ok(opened_dir(rustix::fs::openat(parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?))
}

fn opened_dir(fd: OwnedFd) -> Dir {
    Dir::from_std_file(std::fs::File::from(fd))
}

/// Opens a file of `dir` if it is a regular file.
pub(crate) fn open_regular(dir: &Dir, name: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
    let file = dir.open_with(name, &options).ok()?;
    file.metadata().ok().filter(Metadata::is_file).map(|_| file)
}

/// Removes the directory `name` of `staging` with everything beneath it. Returns the number of removed files and
/// directories. Works at any depth: a subdirectory that is not empty is moved up first, so there is never more than
/// one level.
pub(crate) fn remove_tree(staging: &Dir, name: PathBuf) -> io::Result<u64> {
    let mut removed = 0;
    remove_tree_counting(staging, name, &mut removed)?;
    Ok(removed)
}

/// Like [`remove_tree`]. `removed` is valid on failure too.
pub(super) fn remove_tree_counting(staging: &Dir, name: PathBuf, removed: &mut u64) -> io::Result<()> {
    let mut waiting = vec![name];
    while let Some(name) = waiting.pop() {
        let dir = open_owned(staging, &name)?;
        for entry in dir.entries()? {
            let entry = entry?;
            let child = entry.file_name();
            if !entry.file_type()?.is_dir() {
                dir.remove_file(&child)?;
            } else if dir.remove_dir(&child).is_err() {
                let up = fresh_name();
                make_movable(&dir, &child);
                dir.rename(&child, staging, &up)?;
                waiting.push(up);
                continue;
            }
            *removed += 1;
        }
        staging.remove_dir(&name)?;
        *removed += 1;
    }
    Ok(())
}

/// Returns a random file name that no other change uses.
pub(crate) fn fresh_name() -> PathBuf {
    PathBuf::from(format!("{:016x}", RandomState::new().hash_one(0)))
}
