//! A directory that a restore is in.

use std::os::fd::OwnedFd;

/// An open directory.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) dir: OwnedFd,
    /// Path from the volume.
    pub(super) path: Vec<u8>,
    /// Whether this restore created it, so that nothing else uses it.
    pub(super) is_new: bool,
}
