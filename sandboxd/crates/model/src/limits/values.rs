//! Limits of the values that clients keep with a sandbox.

use std::time::Duration;

/// Maximum length of a key in bytes.
pub const MAX_VALUE_KEY_BYTES: usize = 256;

/// Maximum size of one value in bytes.
pub const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// Maximum size of all keys and values of a sandbox in bytes.
pub const MAX_VALUES_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of values of a sandbox.
pub const MAX_VALUES: u64 = 10_000;

/// Bytes of an encoded value besides its key and its bytes, at most: three tags, three lengths and a time.
const VALUE_OVERHEAD_BYTES: u64 = 32;

/// Maximum size in bytes of the values in a snapshot, as they are encoded there.
pub const MAX_ENCODED_VALUES_BYTES: u64 = MAX_VALUES_BYTES + MAX_VALUES * VALUE_OVERHEAD_BYTES;

/// Maximum number of chunks of the values in a snapshot, without nodes. Each but the last has at least 16 KiB.
pub const MAX_VALUES_CHUNKS: usize = 8192;

/// Size of the values that snapshots, restores and creates have in memory at once, in bytes.
pub const VALUES_MEMORY_BYTES: u64 = 2 * MAX_ENCODED_VALUES_BYTES;

/// Time limit of the write that replaces all values of a sandbox. A disk that is busy writes few MiB in a second.
pub const REPLACE_VALUES: Duration = Duration::from_secs(60);

/// Maximum number of keys on one page of a list.
pub const MAX_KEY_PAGE: u32 = 1_000;

/// Number of keys on a page of a list if the request has no `limit`.
pub const DEFAULT_KEY_PAGE: u32 = 100;
