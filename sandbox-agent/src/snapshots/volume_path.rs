//! Paths of a snapshot's files, resolved in the sandbox's volume without following a link.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use snapshot_format::tree::is_valid_path;

use super::ROOTS;

/// Splits a path into the parts of its directory, and its last part. `None` if a snapshot cannot have it.
pub(super) fn split(path: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let is_in_root = parts.first().is_some_and(|first| ROOTS.iter().any(|root| root.as_bytes() == *first));
    let name = parts.pop()?;
    (is_in_root && is_valid_path(path)).then_some((parts, name))
}

/// Opens a directory as a reference. `None` if it has no parts, which means the volume itself.
pub(super) fn open_dir(volume: &OwnedFd, parts: Vec<&[u8]>) -> Result<Option<OwnedFd>, Errno> {
    let mut dir: Option<OwnedFd> = None;
    for part in parts {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        dir = Some(openat(dir.as_ref().unwrap_or(volume), part, flags, Mode::empty())?);
    }
    Ok(dir)
}
