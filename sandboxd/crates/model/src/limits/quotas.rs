//! Limits of quotas and of the records of what projects use.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Largest value of a quota: 1 PiB in bytes.
pub const MAX_QUOTA: u64 = 1 << 50;

/// Maximum number of running sandboxes that a project is guaranteed. The same as that of a daemon.
pub const MAX_GUARANTEED_RUNNING: u64 = 1_000;

/// Range of the longest time limit of a command, in milliseconds. The same as that of the daemon's setting.
pub const QUOTA_TIMEOUT_MS: RangeInclusive<u64> = 1_000..=86_400_000;

/// Maximum number of images that a quota names.
pub const MAX_QUOTA_IMAGES: usize = 64;

/// Maximum length of the name of an image in a quota, in bytes.
pub const MAX_QUOTA_IMAGE_BYTES: usize = 512;

/// Interval at which it is written what projects have used. A daemon that is killed loses as much.
pub const USAGE_EVERY: Duration = Duration::from_secs(10);

/// How many days of usage are kept.
pub const USAGE_DAYS: i32 = 90;
