//! What a seed from a directory uploads, and how much.

use std::path::PathBuf;

/// A directory as seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadSeed {
    /// Absolute path on this machine. Files that its `.gitignore` files exclude are skipped, even if it is not a
    /// repository. Secrets and build results are always skipped.
    pub root: PathBuf,
    /// Glob that paths relative to the root must match, ignoring case: `**/*`, `src/**`, `**/*.{ts,json}`. `*` does
    /// not match `/`, `**` does. Braces combine several globs: `{src/**,*.json}`.
    pub include: String,
    /// Maximum number of files and links, see [`UploadSeed::MAX_FILES`].
    pub max_files: usize,
    /// Maximum size of all files in bytes, see [`UploadSeed::MAX_BYTES`].
    pub max_bytes: u64,
}

impl UploadSeed {
    /// Default maximum number of files.
    pub const MAX_FILES: usize = 2000;
    /// Default maximum size: 256 MiB.
    pub const MAX_BYTES: u64 = 256 * 1024 * 1024;
}
