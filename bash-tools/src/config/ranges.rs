//! Every number of the section: its default, its bounds and its unit.

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
pub(super) const COMMAND_TIMEOUT_MS: Range = range(30_000, 1_000, 300_000, "milliseconds");
/// Sandboxes at a time.
pub(super) const CONCURRENT_SANDBOXES: Range = range(2, 1, 10, "sandboxes");
/// Of a sandbox nobody uses.
pub(super) const IDLE_TTL_MS: Range = range(900_000, 10_000, 21_600_000, "milliseconds");
/// Memory of a sandbox.
pub(super) const MEMORY_MB: Range = range(2_048, 256, 16_384, "MiB");
/// Processors of a sandbox.
pub(super) const VCPUS: Range = range(2, 1, 8, "processors");
/// Life of a Vercel sandbox; the time that a clone may take in any.
pub(super) const SANDBOX_TIMEOUT_MS: Range = range(900_000, 30_000, 18_000_000, "milliseconds");
/// A port. None of them is a default by itself.
pub(super) const PORT: Range = range(3_000, 1, 65_535, "");
/// First files of a sandbox, all together. The bound is the largest disk that sandboxd gives.
pub(super) const SEED_BYTES: Range = range(268_435_456, 65_536, 68_719_476_736, "bytes");

/// Ports that may be previewed.
pub(super) const MAX_PORTS: usize = 4;
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
