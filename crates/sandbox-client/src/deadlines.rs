//! Deadlines of calls and streams.

use std::time::Duration;

/// Deadline of a call that only reads. The daemon spends up to two seconds on such a response, and its store eight.
pub(crate) const LOOK: Duration = Duration::from_secs(12);

/// Deadline of a call that creates, wakes, parks or deletes, or starts or ends a command. The daemon gives the engine
/// and a sandbox's agent up to a minute, and two minutes for a disk that needs a repair first.
pub(crate) const ACT: Duration = Duration::from_secs(120);

/// Deadline of a call that carries files. The daemon allows two minutes for receiving them and two for passing them
/// to the sandbox.
pub(crate) const TRANSFER: Duration = Duration::from_secs(300);

/// No deadline. Streams have limits of their own.
pub(crate) const UNLIMITED: Option<Duration> = None;

/// Maximum silence of a stream. The daemon sends a heartbeat every 15 seconds.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);

/// Deadline of a request that may have to fetch a repository or packages first.
pub(crate) const FETCH: Duration = Duration::from_secs(15 * 60);
