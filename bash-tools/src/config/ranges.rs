//! Every number of the section: its default, its bounds and its unit. What sandboxd bounds too is its bound.

use std::ops::RangeInclusive;

use sandbox_api::limits as shared;

pub(super) use shared::MAX_PORTS;

const MIB: u64 = 1024 * 1024;

/// A whole number's default and bounds, both included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) default: u64,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) unit: &'static str,
}

/// Output that is kept of each stream.
pub(super) const OUTPUT_CHARS: Range = range(12_000, 200, 200_000, "characters");
/// Of one command.
pub(super) const COMMAND_TIMEOUT_MS: Range = range(
    shared::DEFAULT_COMMAND_TIMEOUT_MS,
    shared::MIN_COMMAND_TIMEOUT_MS,
    shared::DEFAULT_MAX_COMMAND_TIMEOUT_MS,
    "milliseconds",
);
/// Sandboxes at a time.
pub(super) const CONCURRENT_SANDBOXES: Range = range(2, 1, 10, "sandboxes");
/// Of a sandbox nobody uses.
pub(super) const IDLE_TTL_MS: Range =
    within(shared::DEFAULT_IDLE_TTL_MS, shared::IDLE_TTL_MS, "milliseconds");
/// Memory of a sandbox.
pub(super) const MEMORY_MB: Range = within(shared::DEFAULT_MEMORY_MB, shared::MEMORY_MB, "MiB");
/// Processors of a sandbox.
pub(super) const VCPUS: Range = within(shared::DEFAULT_VCPUS, shared::VCPUS, "processors");
/// Life of a Vercel sandbox; the time that a clone may take in any.
pub(super) const SANDBOX_TIMEOUT_MS: Range = range(900_000, 30_000, 18_000_000, "milliseconds");
/// A port. None of them is a default by itself.
pub(super) const PORT: Range = range(3_000, 1, 65_535, "");
/// First files of a sandbox, all together. The bound is the largest disk that sandboxd gives.
pub(super) const SEED_BYTES: Range = range(256 * MIB, 65_536, *shared::DISK_MB.end() * MIB, "bytes");

/// Ranges of addresses.
pub(super) const MAX_TRUSTED_PROXIES: usize = 64;
/// Faults that are told. Only unknown keys, and what is no TOML, can be more.
pub(super) const MAX_FAULTS: usize = 200;
/// Longest text of any setting.
pub(super) const MAX_TEXT_BYTES: usize = 4096;
/// Largest `config.toml`.
pub(super) const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

const fn range(default: u64, min: u64, max: u64, unit: &'static str) -> Range {
    Range { default, min, max, unit }
}

const fn within(default: u64, bounds: RangeInclusive<u64>, unit: &'static str) -> Range {
    range(default, *bounds.start(), *bounds.end(), unit)
}
