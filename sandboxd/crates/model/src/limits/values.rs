//! Limits of the values that clients keep with a sandbox.

/// Maximum length of a key in bytes.
pub const MAX_VALUE_KEY_BYTES: usize = 256;

/// Maximum size of one value in bytes.
pub const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// Maximum size of all keys and values of a sandbox in bytes.
pub const MAX_VALUES_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of values of a sandbox.
pub const MAX_VALUES: u64 = 10_000;

/// Maximum number of keys on one page of a list.
pub const MAX_KEY_PAGE: u32 = 1_000;

/// Number of keys on a page of a list if the request has no `limit`.
pub const DEFAULT_KEY_PAGE: u32 = 100;
