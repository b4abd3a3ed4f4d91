//! Limits of the engine, its disks and images.

use std::time::Duration;

/// Time that the engine may take to respond to a ping.
pub const ENGINE_PING: Duration = Duration::from_secs(2);

/// Time for any other call to the engine.
pub const ENGINE_CALL: Duration = Duration::from_secs(30);

/// Pause before the events of an engine that closed the connection are requested again.
pub const EVENTS_RETRY: Duration = Duration::from_secs(2);

/// Time to pull an image.
pub const IMAGE_PULL: Duration = Duration::from_secs(600);

/// Time that the engine may report nothing while it builds or imports an image. A base is imported while it is
/// being created, which takes minutes on a slow machine.
pub const IMAGE_BUILD: Duration = Duration::from_secs(3600);

/// Time to create a disk.
pub const DISK_MAKE: Duration = Duration::from_secs(30);

/// Time to attach a disk, including repairs after a crash.
pub const DISK_ATTACH: Duration = Duration::from_secs(120);

/// Time for any other request to the disks' helper, and for its start and end.
pub const DISK_CALL: Duration = Duration::from_secs(10);

/// Time to wait for a disk to be unmounted before it is removed.
pub const DISK_RELEASE: Duration = Duration::from_secs(5);

/// Time that a stop waits for the end of the disks' helper. The helper ends by itself with the daemon.
pub const CLOSE_DISKS: Duration = Duration::from_secs(5);

/// Free space that the engine's disk must have for another sandbox, in bytes.
pub const MIN_FREE_DISK_BYTES: u64 = 1024 * 1024 * 1024;

/// Free space that the engine's disk must have in addition to what is written to a workspace, in bytes. More than
/// all sandboxes write between two checks, plus what they have written and is not on the disk yet.
pub const MIN_WRITE_SPACE_BYTES: u64 = 512 * 1024 * 1024;

/// Free space below which a write is reported only after it is on the disk, in bytes.
pub const TIGHT_SPACE_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Interval between checks of the engine's disk.
pub const SPACE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time that a write waits for the result of a check.
pub const SPACE_CHECK_WAIT: Duration = Duration::from_millis(500);

/// Pause before the next check if the disks' helper did not respond.
pub const SPACE_CHECK_RETRY: Duration = Duration::from_secs(10);

/// Time to write a base through the engine.
pub const BASE_UPLOAD: Duration = Duration::from_secs(120);

/// Time to complete a base, which waits for the machine's disk.
pub const BASE_COMPLETE: Duration = Duration::from_secs(120);
