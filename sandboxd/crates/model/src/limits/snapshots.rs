//! Limits of snapshots.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Maximum number of snapshots and restores at once, of all sandboxes. Each takes a processor.
pub const MAX_SNAPSHOTS: usize = 2;

/// How long a snapshot or restore waits for others to end.
pub const SNAPSHOT_TURN: Duration = Duration::from_secs(60);

/// Time for which an agent may send nothing of a snapshot. It reads a large sparse file meanwhile.
pub const SNAPSHOT_SILENCE: Duration = Duration::from_secs(120);

/// Maximum number of new chunks in one snapshot. The daemon keeps 8 bytes of each.
pub const MAX_SNAPSHOT_CHUNKS: usize = 4_000_000;

/// Maximum number of entries and chunks that differ from the parent, each as often as the tree has it.
pub const MAX_SNAPSHOT_VISITS: usize = 8_000_000;

/// How long a snapshot may take, and how long a restore may keep a sandbox from other requests.
pub const EXCLUSIVE_USE: Duration = Duration::from_secs(15 * 60);

/// Maximum length of a snapshot's name in characters.
pub const MAX_SNAPSHOT_NAME: usize = 200;

/// Time after which a snapshot is deleted, in milliseconds. The maximum is a year.
pub const SNAPSHOT_TTL_MS: RangeInclusive<u64> = 1000..=31_536_000_000;

/// How long a request waits for an interrupted restore to be finished or undone, or for all sandboxes of a fork.
pub const UNBLOCK: Duration = Duration::from_secs(60);

/// How long the snapshot is kept that a restore makes before it changes anything.
pub const RESTORE_CHECKPOINT_TTL: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long the snapshot is kept that a fork makes.
pub const FORK_SNAPSHOT_TTL: Duration = Duration::from_secs(3600);

/// Number of snapshots or changes in one response if the caller sets none, and the maximum.
pub const DEFAULT_SNAPSHOT_PAGE: u32 = 100;
/// See [`DEFAULT_SNAPSHOT_PAGE`].
pub const MAX_SNAPSHOT_PAGE: u32 = 1000;

/// Maximum number of sandboxes that one request forks.
pub const MAX_FORKS: usize = 50;

/// Maximum number of exports at once. Each takes a processor, and 64 MiB of memory for an ordinary tree.
pub const MAX_EXPORTS: usize = 2;

/// Maximum number of imports at once. One takes up to 256 MiB of memory for the largest tree.
pub const MAX_IMPORTS: usize = 1;

/// Maximum number of checks of the stored chunks at once.
pub const MAX_CHECKS: usize = 1;

/// Maximum number of packs and of snapshots that a check lists. All of them are counted.
pub const MAX_CHECK_FINDINGS: usize = 100;

/// Number of snapshots that a check may fail to read one after another. After one more, the store is assumed to be unavailable.
pub const MAX_CHECK_FAILURES: usize = 10;

/// Maximum number of damaged chunks that a check keeps in memory. With more, each snapshot with a chunk in the same pack counts
/// as damaged until the pack is in the quarantine.
pub const MAX_CHECK_CHUNKS: usize = 500_000;

/// Number of directories that a check keeps in memory as whole. With more, some are read again.
pub const MAX_CHECK_DIRECTORIES: usize = 1_000_000;

/// Maximum size of a file whose text is compared, in bytes.
pub const MAX_DIFF_FILE_BYTES: u64 = 1024 * 1024;

/// Maximum size of the texts that are compared for one page, in bytes. A page has one change at least.
pub const MAX_DIFF_PAGE_BYTES: u64 = 2 * 1024 * 1024;

/// Maximum number of lines between the first change of a text and the last.
pub const MAX_DIFF_LINES: usize = 100_000;

/// How long the shortest difference of two texts is searched. After that a longer one is used.
pub const DIFF_SEARCH: Duration = Duration::from_millis(200);

/// How often unused chunks are collected.
pub const COLLECT_EVERY: Duration = Duration::from_secs(3600);

/// Maximum number of expired snapshots that are deleted at a time.
pub const EXPIRED_SNAPSHOTS: u32 = 100;

/// Time in milliseconds between two automatic snapshots of a sandbox.
pub const CHECKPOINT_EVERY_MS: RangeInclusive<u64> = 10_000..=86_400_000;

/// Number of automatic snapshots of a sandbox that are kept, and the default.
pub const CHECKPOINTS_KEPT: RangeInclusive<u64> = 1..=1000;
/// See [`CHECKPOINTS_KEPT`].
pub const DEFAULT_CHECKPOINTS_KEPT: u32 = 50;

/// How long an automatic snapshot is kept at most.
pub const CHECKPOINT_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// Time for the snapshot in a remote store of a sandbox that a client parks. Its requests wait meanwhile. If the time is over,
/// the sandbox is parked, and the snapshot is made later.
pub const PARK_CHECKPOINT: Duration = Duration::from_secs(10);

/// As [`PARK_CHECKPOINT`], if another sandbox waits for the park. Shorter than [`EVICTION_WAIT`](super::EVICTION_WAIT).
pub const EVICTION_CHECKPOINT: Duration = Duration::from_secs(2);

/// As [`PARK_CHECKPOINT`], if nothing waits: the sandbox is idle, or it is woken for its snapshot.
pub const IDLE_CHECKPOINT: Duration = Duration::from_secs(5 * 60);

/// How often the daemon looks for parked sandboxes whose snapshot is still to be made.
pub const MISSED_CHECKPOINTS_EVERY: Duration = Duration::from_secs(10);

/// Time between two attempts to make that snapshot.
pub const CHECKPOINT_RETRY: Duration = Duration::from_secs(10 * 60);

/// How long sandboxes are parked without a snapshot after the remote store has failed.
pub const CHECKPOINT_PAUSE: Duration = Duration::from_secs(30);

/// How long a sandbox must have ended no command before an automatic snapshot is made. Commands in close succession share
/// one, and none of them is slowed down.
pub const CHECKPOINT_QUIET: Duration = Duration::from_millis(100);

/// Time after which an automatic snapshot is made although commands end again and again.
pub const CHECKPOINT_DELAY: Duration = Duration::from_secs(5);

/// Maximum number of automatic snapshots that are made at once, of all sandboxes.
pub const MAX_CHECKPOINTS: usize = 2;

/// Number of a sandbox's last commands whose automatic snapshot is kept.
pub const CHECKPOINTED_COMMANDS: usize = 64;

/// Maximum length of the folder of a remote store in characters. With it, the name of an object has less than 1024 bytes, which
/// is what S3 allows.
pub const MAX_REMOTE_FOLDER: usize = 200;

/// Maximum number of master keys of a remote store.
pub const MAX_MASTER_KEYS: usize = 16;

/// Maximum size of a file with master keys in bytes.
pub const MAX_KEY_FILE_BYTES: u64 = 16 * 1024;

/// How long a connection to a remote store may take.
pub const REMOTE_CONNECT: Duration = Duration::from_secs(5);

/// How long one request to a remote store may take. A pack of 8 MiB needs 140 KB/s.
pub const REMOTE_REQUEST: Duration = Duration::from_secs(60);

/// How often a failed request to a remote store is repeated.
pub const REMOTE_RETRIES: usize = 3;

/// How long after its start a failed request to a remote store is repeated.
pub const REMOTE_RETRY: Duration = Duration::from_secs(20);

/// How long the opening of a remote store may take, without the building of its index. A request waits for it.
pub const REMOTE_OPEN: Duration = Duration::from_secs(20);

/// How long requests get the error of a remote store that could not be opened, until one tries again.
pub const REMOTE_OPEN_PAUSE: Duration = Duration::from_secs(5);

/// Number of files from which sandboxes share those of a snapshot.
pub const MIN_BASE_FILES: u64 = 1000;

/// Size of all files in bytes from which sandboxes share those of a snapshot.
pub const MIN_BASE_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes of holes that the files of a base may have. They take space in its image.
pub const MAX_BASE_HOLES: u64 = 64 * 1024 * 1024;

/// Time within which two agents over bases do not answer before the volume plugin is restarted.
pub const PLUGIN_SUSPICION: Duration = Duration::from_secs(60);

/// Time that a create waits for the base of another one.
pub const BASE_WAIT: Duration = Duration::from_secs(30);

/// Time to read what a base has, and then to write its image.
pub const BASE_IMAGE: Duration = Duration::from_secs(60);

/// Time in which one base is not built again after it took too long, or its upload failed. Its sandboxes get copies
/// meanwhile.
pub const BASE_BUILD_PAUSE: Duration = Duration::from_secs(600);

/// Time after which an engine that did not support bases is tested again.
pub const BASE_SUPPORT_RETEST: Duration = Duration::from_secs(3600);
