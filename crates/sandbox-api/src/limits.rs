//! Bounds and defaults that the daemon and its clients share.
//!
//! The daemon enforces each of them. Clients use the same constants to reject a bad setting before they send it.

use std::ops::RangeInclusive;

/// Runtimes that the sandbox image serves; the first is the default.
pub const RUNTIMES: [&str; 2] = ["node24", "python3.13"];

/// Idle time that a caller may ask for, in milliseconds.
pub const IDLE_TTL_MS: RangeInclusive<u64> = 10_000..=21_600_000;
/// Idle time in milliseconds if neither caller nor operator sets one.
pub const DEFAULT_IDLE_TTL_MS: u64 = 900_000;

/// Processors of a sandbox.
pub const VCPUS: RangeInclusive<u64> = 1..=8;
/// Processors of a sandbox whose caller asks for no number.
pub const DEFAULT_VCPUS: u64 = 2;

/// Memory of a sandbox in MiB.
pub const MEMORY_MB: RangeInclusive<u64> = 256..=16_384;
/// Memory in MiB of a sandbox whose caller asks for no size.
pub const DEFAULT_MEMORY_MB: u64 = 2048;

/// Processes and threads of a sandbox.
pub const PIDS: RangeInclusive<u64> = 16..=4096;
/// Processes and threads of a sandbox whose caller asks for no number.
pub const DEFAULT_PIDS: u64 = 512;

/// Size of a workspace in MiB.
pub const DISK_MB: RangeInclusive<u64> = 64..=65_536;
/// Size in MiB of a workspace whose caller asks for none.
pub const DEFAULT_DISK_MB: u64 = 2048;

/// Ports that a sandbox may offer.
pub const MAX_PORTS: usize = 4;

/// Longest session key, in bytes.
pub const MAX_SESSION_KEY_BYTES: usize = 512;

/// Shortest time limit of a command, in milliseconds.
pub const MIN_COMMAND_TIMEOUT_MS: u64 = 1000;
/// Time limit in milliseconds of a command whose caller sets none.
pub const DEFAULT_COMMAND_TIMEOUT_MS: u64 = 30_000;
/// Longest time limit of a command in milliseconds if the operator sets no other.
pub const DEFAULT_MAX_COMMAND_TIMEOUT_MS: u64 = 300_000;

/// Longest host name, in bytes.
pub const MAX_HOST_BYTES: usize = 255;
/// Hosts in a sandbox's list of allowed ones.
pub const MAX_NETWORK_RULES: usize = 128;
/// Longest entry of that list, in bytes: a host and `:65535`.
pub const MAX_NETWORK_RULE_BYTES: usize = MAX_HOST_BYTES + 6;
