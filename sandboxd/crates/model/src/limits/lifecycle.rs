//! Limits of the life of sandboxes and of the daemon.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Time that a failed create waits for its cleanup.
pub const UNDO_CREATE: Duration = Duration::from_secs(3);

/// Interval between checks of idle and parked sandboxes.
pub const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Number of attempts of a start to take the next epoch while other daemons of the same instance start too.
pub const EPOCH_TRIES: usize = 5;

/// Time that a start with a copied or restored state dir waits for the other daemon to end.
pub const OTHER_DAEMON_WAIT: Duration = Duration::from_secs(5);

/// Interval between reconciliations.
pub const RECONCILE_EVERY: Duration = Duration::from_secs(60);

/// Number of sandboxes that are reconciled concurrently.
pub const RECONCILE_AT_ONCE: usize = 16;

/// Time that a start waits for one sandbox before it continues without it. That sandbox is retried in the
/// background.
pub const RESTORE_WAIT: Duration = Duration::from_secs(2);

/// Pauses between attempts to start, or to restore a sandbox, from the first to the longest.
pub const START_RETRY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30);

/// Time after which a start tries again what an earlier start has found to work.
pub const START_RECORD_AGE: Duration = Duration::from_hours(24);

/// Time that a forced park lets short requests finish before it cancels them.
pub const PARK_GRACE: Duration = Duration::from_secs(1);

/// Number of attempts of a reading request whose sandbox is parked meanwhile.
pub const RACE_TRIES: usize = 8;

/// Number of containers that are started concurrently on a machine with one processor.
pub const MIN_STARTS: usize = 2;

/// Time that a new sandbox waits for one idle sandbox to be parked before it tries the next.
pub const EVICTION_WAIT: Duration = Duration::from_secs(5);

/// Number of containers that are recorded as warned about. Beyond it, all are warned about once more.
pub const MAX_WARNED_CONTAINERS: usize = 1024;

/// Time to copy the files of a sandbox of the original daemon.
pub const COPY_ORIGINAL: Duration = Duration::from_secs(600);

/// Interval at which freed memory is returned to the system.
pub const MEMORY_TRIM_INTERVAL: Duration = Duration::from_secs(10);

/// Pause before the next attempt to start a sandbox in advance: it begins at the start of the range, doubles after each failure,
/// and does not exceed the end.
pub const POOL_RETRY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);

/// How often the sandboxes that wait for a session are checked, and whether there is room for more.
pub const POOL_CHECK: Duration = Duration::from_secs(10);

/// Time without a new sandbox after which another one is started in advance.
pub const POOL_QUIET: Duration = Duration::from_millis(300);

/// Time after which one is started in advance although new sandboxes come all the time.
pub const POOL_PATIENCE: Duration = Duration::from_secs(5);

/// Time that a sandbox waits for one that is being started in advance, because it needs that one's permit.
pub const POOL_START: Duration = Duration::from_secs(5);

/// Time that a stop waits for the removal of sandboxes that wait for a session.
pub const EMPTY_POOL: Duration = Duration::from_secs(10);

/// Maximum number of sandboxes that wait for a session.
pub const MAX_POOL_SIZE: usize = 32;

/// Maximum size of a sandbox's labels beside its disk, in bytes. A sandbox with more is started when it is wanted.
pub const MAX_NOTE_BYTES: usize = 32 * 1024;

/// Part of [`MAX_NOTE_BYTES`] that is kept for the names of a disk, a base and a driver.
pub const MAX_DISK_LABEL_BYTES: usize = 512;
