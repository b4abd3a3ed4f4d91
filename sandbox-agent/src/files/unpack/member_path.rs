//! Checks the paths and link targets of an archive's members.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::limits::{MAX_PATH_BYTES, MAX_WALK_DEPTH};

/// Returns a member's path without redundant parts, or `None` for the archive's own root.
pub(super) fn checked(member: &[u8]) -> Result<Option<PathBuf>, &'static str> {
    if member.len() > MAX_PATH_BYTES {
        return Err("its path is too long");
    }
    if member.contains(&0) {
        return Err("its path contains NUL");
    }
    let mut path = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(member)).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err("its path leads out of the workspace");
            }
        }
    }
    if path.components().count() > MAX_WALK_DEPTH {
        return Err("its path has too many levels");
    }
    Ok(Some(path).filter(|path| !path.as_os_str().is_empty()))
}

/// Whether a link in the directory `from` of the workspace stays inside, judged by its text, because its target may not
/// exist. This is not a security boundary: the agent itself follows no link out of the workspace.
pub(super) fn stays_inside(workspace: &Path, from: &Path, target: &Path) -> bool {
    let (mut depth, rest) = match target.strip_prefix(workspace) {
        Ok(rest) => (0, rest),
        Err(_) if target.is_absolute() => return false,
        Err(_) => (from.components().count(), target),
    };
    rest.components().all(|part| match part {
        Component::ParentDir if depth == 0 => false,
        Component::ParentDir => {
            depth -= 1;
            true
        }
        Component::Normal(_) => {
            depth += 1;
            true
        }
        _ => true,
    })
}
