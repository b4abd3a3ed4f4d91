//! Limits and defaults that the daemon and its clients share.
//!
//! The daemon enforces each of them. Clients use the same constants to reject a bad setting before they send it.

use std::ops::RangeInclusive;

/// Runtimes of the sandbox image. The first is the default.
pub const RUNTIMES: [&str; 2] = ["node24", "python3.13"];

/// Range of the idle time in milliseconds.
pub const IDLE_TTL_MS: RangeInclusive<u64> = 10_000..=21_600_000;
/// Default idle time in milliseconds, if neither the client nor the operator sets one.
pub const DEFAULT_IDLE_TTL_MS: u64 = 900_000;

/// Range of the number of processors.
pub const VCPUS: RangeInclusive<u64> = 1..=8;
/// Default number of processors.
pub const DEFAULT_VCPUS: u64 = 2;

/// Range of the memory in MiB.
pub const MEMORY_MB: RangeInclusive<u64> = 256..=16_384;
/// Default memory in MiB.
pub const DEFAULT_MEMORY_MB: u64 = 2048;

/// Range of the number of processes and threads.
pub const PIDS: RangeInclusive<u64> = 16..=4096;
/// Default number of processes and threads.
pub const DEFAULT_PIDS: u64 = 512;

/// Range of the workspace size in MiB.
pub const DISK_MB: RangeInclusive<u64> = 64..=65_536;
/// Default workspace size in MiB.
pub const DEFAULT_DISK_MB: u64 = 2048;

/// Maximum number of ports that a sandbox may expose.
pub const MAX_PORTS: usize = 4;

/// Maximum length of a session key in bytes.
pub const MAX_SESSION_KEY_BYTES: usize = 512;

/// Minimum time limit of a command in milliseconds.
pub const MIN_COMMAND_TIMEOUT_MS: u64 = 100;
/// Minimum of settings for the time limit of commands in milliseconds.
pub const MIN_COMMAND_TIMEOUT_SETTING_MS: u64 = 1000;
/// Default time limit of a command in milliseconds.
pub const DEFAULT_COMMAND_TIMEOUT_MS: u64 = 30_000;
/// Maximum time limit of a command in milliseconds, unless the operator sets another.
pub const DEFAULT_MAX_COMMAND_TIMEOUT_MS: u64 = 300_000;

/// Maximum length of a host name in bytes.
pub const MAX_HOST_BYTES: usize = 255;
/// Maximum number of entries in a sandbox's `allow` list.
pub const MAX_NETWORK_RULES: usize = 128;
/// Maximum length of such an entry in bytes: a host and `:65535`.
pub const MAX_NETWORK_RULE_BYTES: usize = MAX_HOST_BYTES + 6;

/// Maximum number of Python packages that a sandbox or a context asks for.
pub const MAX_PACKAGES: usize = 64;
/// Maximum length of each in bytes: a name with versions.
pub const MAX_REQUIREMENT_BYTES: usize = 256;

/// Maximum length of the name or address of a repository in bytes.
pub const MAX_REPOSITORY_BYTES: usize = 512;
/// Maximum length of the name of a branch, a tag or a commit in bytes.
pub const MAX_GIT_REF_BYTES: usize = 255;
/// Maximum length of the version of a package in bytes.
pub const MAX_PACKAGE_VERSION_BYTES: usize = 256;
