//! Limits of the audit record.

use std::time::Duration;

/// Size of a file of the audit record after which the next one begins, in bytes.
pub const MAX_AUDIT_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum length of what a line of the audit record says, in bytes.
pub const MAX_AUDIT_LINE_BYTES: usize = 64 * 1024;

/// Lines that wait in memory while the audit record cannot be written. More are only counted.
pub const MAX_WAITING_AUDIT_LINES: usize = 1_000;

/// Space on the disk that is kept for the record of acts that free some, in bytes. Fits the lines of a thousand deletes.
pub const AUDIT_RESERVE_BYTES: u64 = 1024 * 1024;

/// Files of the audit record that are full and not on the disk yet. If there are more, nothing is recorded.
pub const MAX_UNSYNCED_AUDIT_FILES: usize = 4;

/// Interval at which the lines of the audit record become durable, if no act needs it earlier.
pub const AUDIT_SYNC_EVERY: Duration = Duration::from_secs(1);

/// Interval at which the head of the audit record is written to the database.
pub const AUDIT_HEAD_EVERY: Duration = Duration::from_secs(10);

/// Interval at which the head of the audit record is logged.
pub const AUDIT_LOG_EVERY: Duration = Duration::from_secs(3600);

/// Interval at which repeated refusals are recorded with their number.
pub const AUDIT_REFUSALS_EVERY: Duration = Duration::from_secs(60);

/// Different refusals that are counted apart in one interval. Those of others are counted together.
pub const MAX_AUDIT_REFUSALS: usize = 1_000;

/// Different refusals of one sandbox that are counted apart in one interval.
pub const MAX_AUDIT_REFUSALS_OF_SANDBOX: usize = 50;

/// Faults that a check of the audit record lists.
pub const MAX_AUDIT_FAULTS: usize = 100;

/// Lines of a page of the audit record if the request does not say how many.
pub const DEFAULT_AUDIT_PAGE: u32 = 100;

/// Maximum number of lines of a page of the audit record.
pub const MAX_AUDIT_PAGE: u32 = 1_000;

/// Bytes of the audit record that one request reads.
pub const MAX_AUDIT_SCAN_BYTES: u64 = 32 * 1024 * 1024;

/// Time in which the audit record is completed at a stop.
pub const AUDIT_CLOSE: Duration = Duration::from_secs(5);

/// Time after which another request of a visitor through the same preview link is recorded.
pub const AUDIT_VISIT_EVERY: Duration = Duration::from_secs(3600);

/// Visitors of links that are remembered, so that each is recorded once.
pub const MAX_AUDIT_VISITS: usize = 10_000;
