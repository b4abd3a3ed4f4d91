//! Defaults, limits and units of all numbers in the section. Limits that sandboxd has too are taken from it.

use std::ops::RangeInclusive;

use sandbox_api::limits as shared;

pub(super) use shared::MAX_PORTS;

const MIB: u64 = 1024 * 1024;

/// Default and inclusive limits of a whole number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) default: u64,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) unit: &'static str,
}

/// Kept output of each stream.
pub(super) const OUTPUT_CHARS: Range = range(12_000, 200, 200_000, "characters");
/// Time limit of a command.
pub(super) const COMMAND_TIMEOUT_MS: Range = range(
    shared::DEFAULT_COMMAND_TIMEOUT_MS,
    shared::MIN_COMMAND_TIMEOUT_SETTING_MS,
    shared::DEFAULT_MAX_COMMAND_TIMEOUT_MS,
    "milliseconds",
);
/// Open sandboxes.
pub(super) const CONCURRENT_SANDBOXES: Range = range(2, 1, 10, "sandboxes");
/// Idle time of a sandbox.
pub(super) const IDLE_TTL_MS: Range =
    within(shared::DEFAULT_IDLE_TTL_MS, shared::IDLE_TTL_MS, "milliseconds");
/// Memory of a sandbox.
pub(super) const MEMORY_MB: Range = within(shared::DEFAULT_MEMORY_MB, shared::MEMORY_MB, "MiB");
/// Checkpoints that are kept of a sandbox. 0 is none.
pub(super) const CHECKPOINTS: Range = range(0, 0, 1000, "checkpoints");
/// Processors of a sandbox.
pub(super) const VCPUS: Range = within(shared::DEFAULT_VCPUS, shared::VCPUS, "processors");
/// Lifetime of a Vercel sandbox, and the time limit of a clone with either provider.
pub(super) const SANDBOX_TIMEOUT_MS: Range = range(900_000, 30_000, 18_000_000, "milliseconds");
/// Port. The default applies only to an absent list.
pub(super) const PORT: Range = range(3_000, 1, 65_535, "");
/// Total size of a seed. The limit is the largest disk of sandboxd.
pub(super) const SEED_BYTES: Range = range(256 * MIB, 65_536, *shared::DISK_MB.end() * MIB, "bytes");

/// Maximum number of address ranges.
pub(super) const MAX_TRUSTED_PROXIES: usize = 64;
/// Maximum number of reported errors. Only unknown keys and syntax errors can exceed it.
pub(super) const MAX_FAULTS: usize = 200;
/// Maximum length of a text.
pub(super) const MAX_TEXT_BYTES: usize = 4096;
/// Maximum size of `config.toml`.
pub(super) const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

const fn range(default: u64, min: u64, max: u64, unit: &'static str) -> Range {
    Range { default, min, max, unit }
}

const fn within(default: u64, bounds: RangeInclusive<u64>, unit: &'static str) -> Range {
    range(default, *bounds.start(), *bounds.end(), unit)
}
