//! Limits of repositories.

use std::time::Duration;

use sandbox_api::limits as shared;

/// Maximum length of the name or address of a repository in bytes.
pub const MAX_REPOSITORY_BYTES: usize = shared::MAX_REPOSITORY_BYTES;

/// Maximum length of the name of a branch, a tag or a commit in bytes.
pub const MAX_GIT_REF_BYTES: usize = shared::MAX_GIT_REF_BYTES;

/// Maximum length of the name of a package in bytes (npm's own).
pub const MAX_PACKAGE_NAME_BYTES: usize = 214;

/// Maximum length of the version of a package in bytes.
pub const MAX_PACKAGE_VERSION_BYTES: usize = shared::MAX_PACKAGE_VERSION_BYTES;

/// Maximum length of a script in a query in bytes.
pub const MAX_QUERY_SCRIPT_BYTES: usize = 4096;

/// Maximum number of tags that a result lists.
pub const MAX_TAGS_SHOWN: usize = 20;

/// Maximum size of a list of refs, or of what a registry says about a version, in bytes.
pub const MAX_LOOK_UP_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of refs that are read.
pub const MAX_REFS: usize = 100_000;

/// Maximum number of look-ups at once. Each may hold [`MAX_LOOK_UP_BYTES`].
pub const MAX_LOOK_UPS: usize = 4;

/// How long the result of a look-up is used. A branch that has moved is found after this time.
pub const LOOK_UP_LIFETIME: Duration = Duration::from_secs(60);

/// Maximum number of results of look-ups that are remembered.
pub const MAX_LOOK_UPS_KEPT: usize = 1024;

/// Time for one look-up, with its redirects.
pub const LOOK_UP: Duration = Duration::from_secs(25);

/// Time for which a git server or registry may send nothing.
pub const GIT_SILENCE: Duration = Duration::from_secs(25);

/// Maximum number of redirects of one request to a git server or registry.
pub const MAX_GIT_REDIRECTS: usize = 5;

/// Maximum size of a request of a fetching git in bytes. It names one commit.
pub const MAX_GIT_REQUEST_BYTES: usize = 1024 * 1024;

/// Time for a whole fetch, with the snapshot of its files.
pub const FETCH: Duration = Duration::from_secs(10 * 60);

/// Time to remove what a fetch has left in its repository, and to list what is missing in it.
pub const FETCH_COMMAND: Duration = Duration::from_secs(8 * 60);

/// Maximum number of fetches at once.
pub const MAX_FETCHES: usize = 4;

/// How long a request waits until fewer than [`MAX_FETCHES`] run.
pub const FETCH_TURN: Duration = Duration::from_secs(60);

/// How much of a fetching git's own messages is logged, in bytes.
pub const MAX_FETCH_LOG_BYTES: usize = 4096;

/// Maximum number of lines of a fetch that are read.
pub const MAX_FETCH_LINES: usize = 16;

/// Maximum number of fetched repositories that are kept.
pub const MAX_REPOSITORIES: usize = 10_000;

/// How often the use of a repository is written to the store.
pub const REPOSITORY_USE_EVERY: Duration = Duration::from_secs(60);

/// Maximum length of the name of a directory in bytes, without its prefix.
pub const MAX_DIRECTORY_NAME_BYTES: usize = 63;

/// Maximum number of directories that the operator allows.
pub const MAX_DIRECTORIES: usize = 256;

/// Maximum number of entries of a directory that are read, with those that are skipped.
pub const MAX_DIRECTORY_ENTRIES: usize = 200_000;

/// Maximum depth of directories below one that the operator allows. Each holds an open file of the daemon.
pub const MAX_DIRECTORY_DEPTH: usize = 128;

/// Time to look at the files of a directory, or at the refs in it.
pub const DIRECTORY_LOOK_UP: Duration = Duration::from_secs(120);

/// How old the last change of a directory must be, so that equal sizes and times mean equal files.
pub const DIRECTORY_SETTLED: Duration = Duration::from_secs(2);

/// Maximum size of a file in which git keeps a single ref, or of the beginning of a tag, in bytes.
pub const MAX_LOOSE_REF_BYTES: usize = 4096;

/// Maximum number of tags that name a tag, between a ref and its commit.
pub const MAX_TAG_DEPTH: usize = 8;
