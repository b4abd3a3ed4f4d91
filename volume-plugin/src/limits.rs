//! Bounds of what a request may take.

/// Maximum size of a request's body in bytes. A request has a name and three options.
pub(crate) const REQUEST_BYTES: usize = 16 * 1024;

/// Maximum length of a volume's name in bytes.
pub(crate) const NAME_BYTES: usize = 128;

/// Maximum length of a disk's name in bytes.
pub(crate) const DISK_NAME_BYTES: usize = 64;

/// Maximum number of volumes.
pub(crate) const VOLUMES: usize = 16_384;

/// Maximum size of a definition's file in bytes.
pub(crate) const DEFINITION_BYTES: u64 = 4096;

/// Number of requests that are processed concurrently. More wait.
pub(crate) const WORKERS: usize = 8;

/// Largest user id that may own a base's files. The next ones have a special meaning for the kernel.
pub(crate) const MAX_UID: u32 = 65_533;

/// Maximum length of the kernel's explanation of a failed mount, in bytes.
pub(crate) const EXPLANATION_BYTES: usize = 300;

/// Maximum number of containers that use one volume at the same time.
pub(crate) const USERS: usize = 64;
