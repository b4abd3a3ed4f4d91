//! Limits of Python packages on request.

use std::time::Duration;

use sandbox_api::limits as shared;

/// Maximum number of requirements in a set.
pub const MAX_PACKAGES: usize = shared::MAX_PACKAGES;

/// Maximum length of a requirement in bytes.
pub const MAX_REQUIREMENT_BYTES: usize = shared::MAX_REQUIREMENT_BYTES;

/// Maximum number of extras of a requirement.
pub const MAX_EXTRAS: usize = 8;

/// Maximum number of versions that a requirement compares with.
pub const MAX_VERSION_CLAUSES: usize = 8;

/// How long a set is used before its versions are resolved again.
pub const PACKAGE_SET_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Maximum number of sets that are kept.
pub const MAX_PACKAGE_SETS: usize = 1000;

/// Maximum size of what the index says about one package in bytes.
pub const MAX_INDEX_PAGE_BYTES: usize = 32 * 1024 * 1024;

/// Maximum number of packages that the index is asked for in one resolution.
pub const MAX_INDEX_PAGES: usize = 2000;

/// Maximum number of files that the index names in one resolution.
pub const MAX_INDEX_FILES: usize = 500_000;

/// Time for a whole resolution, with the snapshot of the files.
pub const RESOLUTION: Duration = Duration::from_secs(10 * 60);

/// Time to find the versions of a set, and to unpack them.
pub const RESOLUTION_COMMAND: Duration = Duration::from_secs(8 * 60);

/// Maximum number of resolutions at once.
pub const MAX_RESOLUTIONS: usize = 2;

/// How long a request waits until fewer than [`MAX_RESOLUTIONS`] run.
pub const RESOLUTION_TURN: Duration = Duration::from_secs(60);

/// How much of uv's own messages is kept, in bytes.
pub const MAX_RESOLUTION_LOG_BYTES: usize = 4096;

/// Time to find out whether a sandbox has a set.
pub const PACKAGE_CHECK: Duration = Duration::from_secs(10);

/// Time to copy a set into a sandbox that runs.
pub const PACKAGE_COPY: Duration = Duration::from_secs(5 * 60);
