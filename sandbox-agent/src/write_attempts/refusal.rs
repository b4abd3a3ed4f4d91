//! Whether an attempt to write is about to be refused.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agent_protocol::v1::{ReadOnlyViolation, WriteOperation};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2, readlink, statat,
};
use rustix::io::Errno;

use super::attempt::{Attempt, Place};

/// A path after its links are resolved, and whether something is there.
struct Resolved {
    path: PathBuf,
    file_type: Option<FileType>,
}

/// Returns the refusal of an attempt of process `pid`. `None` if it does not change the workspace, has no effect, or
/// cannot be resolved.
pub(super) fn refusal(attempt: &Attempt, pid: u32, workspace: &Path) -> Option<ReadOnlyViolation> {
    let is_there = |place: &Place| name_of(place, pid).ok().filter(|it| it.file_type.is_some());
    let is_inside = |name: &Resolved| name.path.starts_with(workspace);
    let (operation, resolved) = match attempt {
        Attempt::Open { place, flags } => opened(place, *flags, pid)?,
        Attempt::Create(place) => {
            let name = name_of(place, pid).ok().filter(|name| name.file_type.is_none())?;
            (WriteOperation::Create, name)
        }
        Attempt::Delete(place) => (WriteOperation::Delete, is_there(place)?),
        Attempt::Rename { from, to } => {
            let names = [is_there(from)?, name_of(to, pid).ok()?];
            (WriteOperation::Rename, names.into_iter().find(is_inside)?)
        }
        Attempt::Link { from, to } => {
            let to = name_of(to, pid).ok().filter(|name| name.file_type.is_none())?;
            (WriteOperation::Link, [to, is_there(from)?].into_iter().find(is_inside)?)
        }
    };
    let path = resolved.path.strip_prefix(workspace).ok()?;
    Some(ReadOnlyViolation { operation: operation as i32, path: path.to_string_lossy().into_owned() })
}

fn opened(place: &Place, flags: i32, pid: u32) -> Option<(WriteOperation, Resolved)> {
    let creates = flags & libc::O_CREAT != 0;
    if creates && flags & libc::O_EXCL != 0 {
        let name = name_of(place, pid).ok()?;
        return name.file_type.is_none().then_some((WriteOperation::Create, name));
    }
    let nofollow = if flags & libc::O_NOFOLLOW != 0 { OFlags::NOFOLLOW } else { OFlags::empty() };
    match file_of(place, nofollow, pid) {
        // Only a temporary file without a name can be created by opening a directory.
        Ok(file) if file.file_type == Some(FileType::Directory) => {
            (flags & libc::O_TMPFILE == libc::O_TMPFILE).then_some((WriteOperation::Create, file))
        }
        Ok(file) => {
            let writes = flags & (libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC) != 0;
            writes.then_some((WriteOperation::Write, file))
        }
        Err(Errno::NOENT) if creates => Some((WriteOperation::Create, name_of(place, pid).ok()?)),
        Err(_) => None,
    }
}

/// Resolves a path with all links.
fn file_of(place: &Place, nofollow: OFlags, pid: u32) -> Result<Resolved, Errno> {
    let file = open_path(place, &place.path, nofollow, pid)?;
    let file_type = FileType::from_raw_mode(fstat(&file)?.st_mode);
    Ok(Resolved { path: path_of(&file)?, file_type: Some(file_type) })
}

/// Resolves a path except for its last name.
fn name_of(place: &Place, pid: u32) -> Result<Resolved, Errno> {
    let (parent, name) = split(&place.path).ok_or(Errno::INVAL)?;
    let parent = open_path(place, parent, OFlags::DIRECTORY, pid)?;
    let file_type = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(errno),
    };
    Ok(Resolved { path: path_of(&parent)?.join(name), file_type })
}

/// Splits the last name off. `None` if the path has none that could be created or deleted.
fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/')? + 1;
    let start = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (parent, name) = (&bytes[..start], &bytes[start..end]);
    let parent = if parent.is_empty() { &b"."[..] } else { parent };
    let is_name = name != b"." && name != b"..";
    is_name.then(|| (Path::new(OsStr::from_bytes(parent)), OsStr::from_bytes(name)))
}

/// Opens `path` from the process's directory without an effect. Links of `/proc` are not followed, because the agent's
/// lead elsewhere.
fn open_path(place: &Place, path: &Path, flags: OFlags, pid: u32) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    let open_from = |base| openat2(base, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
    if path.is_absolute() {
        return open_from(CWD);
    }
    let base = match place.directory {
        libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
        number => format!("/proc/{pid}/fd/{number}"),
    };
    let base = open(base, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    open_from(base.as_fd())
}

fn path_of(file: &OwnedFd) -> Result<PathBuf, Errno> {
    let path = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(path.as_bytes())))
}
