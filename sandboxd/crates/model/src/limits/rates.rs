//! Limits on the number of requests, and on the pace of their bodies.

use std::time::Duration;

/// How many times as many requests as a subject an address may send, because several people share one.
pub const SUBJECTS_PER_ADDRESS: u32 = 10;

/// Maximum number of subjects, and of addresses, whose requests are counted separately. Further ones share a count.
pub const MAX_COUNTED: usize = 16_384;

/// Maximum number of addresses in `X-Forwarded-For` that are read, from its end.
pub const MAX_FORWARDED: usize = 32;

/// Bytes in a second that a project sends and receives in large bodies while another project works.
pub const SHARED_BYTES_PER_SECOND: u64 = 32 * 1024 * 1024;

/// Longest time that bytes wait for those of their project before them. With so many at once, they flow faster.
pub const MAX_PACE_WAIT: Duration = Duration::from_secs(2);

/// How long a project counts as one that works after a request.
pub const PROJECT_IS_ACTIVE: Duration = Duration::from_secs(2);

/// Largest body that flows at any pace, in bytes.
pub const MAX_UNPACED_BYTES: u64 = 64 * 1024;
