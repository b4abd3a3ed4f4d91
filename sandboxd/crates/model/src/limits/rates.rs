//! Limits on the number of requests.

/// How many times as many requests as a subject an address may send, because several people share one.
pub const SUBJECTS_PER_ADDRESS: u32 = 10;

/// Maximum number of subjects, and of addresses, whose requests are counted separately. Further ones share a count.
pub const MAX_COUNTED: usize = 16_384;

/// Maximum number of addresses in `X-Forwarded-For` that are read, from its end.
pub const MAX_FORWARDED: usize = 32;
