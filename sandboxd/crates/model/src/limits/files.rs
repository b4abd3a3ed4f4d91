//! Limits of files.

use std::time::Duration;

/// Maximum length of a path in bytes (PATH_MAX without its NUL).
pub const MAX_PATH_BYTES: usize = 4095;

/// Size of the largest file that `files:read` returns, in bytes.
pub const MAX_READ_BYTES: u64 = 50 * 1024 * 1024;

/// Maximum number of files in one `files:write`.
pub const MAX_FILES_PER_WRITE: usize = 10_000;

/// Size of the parts in which a file is sent. It is half of a stream's window, so that the next part is sent while
/// the agent writes one.
pub const FILE_PART_BYTES: usize = 256 * 1024;

/// Time to write or read the files of one request that are in memory. Also the time that a streamed file may make
/// no progress.
pub const FILE_TRANSFER: Duration = Duration::from_secs(120);

/// Time for a search, including the wait for its turn.
pub const SEARCH: Duration = Duration::from_secs(40);

/// Maximum size of the diff of an edit, in bytes.
pub const MAX_DIFF_BYTES: usize = 4 * 1024 * 1024;

/// Maximum total size of the entries of one listing, or of the results of one search, in bytes.
pub const MAX_FOUND_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of levels of one listing.
pub const MAX_LIST_DEPTH: u32 = 32;

/// Maximum number of entries of one listing.
pub const MAX_LIST_ENTRIES: u32 = 10_000;

/// Number of entries of one listing if the caller sets none.
pub const DEFAULT_LIST_ENTRIES: u32 = 1000;

/// Maximum number of results of one search.
pub const MAX_SEARCH_RESULTS: u32 = 10_000;

/// Maximum length of a matching line in bytes. The agent cuts longer ones.
pub const MAX_SEARCH_LINE_BYTES: usize = 2 * 1024;

/// Number of results of one search if the caller sets none.
pub const DEFAULT_SEARCH_RESULTS: u32 = 200;

/// Maximum number of edits in one request. The agent rejects more.
pub const MAX_EDITS: usize = 256;

/// Maximum length of a query or pattern of a search, in bytes. The agent rejects longer ones.
pub const MAX_PATTERN_BYTES: usize = 4 * 1024;

/// Time that a client may send nothing of a file that it uploads.
pub const UPLOAD_PAUSE: Duration = Duration::from_secs(60);

/// Time for which pieces of an upload are gathered before they are sent together.
pub const UPLOAD_GATHER: Duration = Duration::from_millis(2);
