//! Limits of previews and published ports.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Maximum number of active links of one sandbox.
pub const MAX_LINKS: usize = 64;

/// Lifetime of a link that a caller may set, in milliseconds.
pub const LINK_TTL_MS: RangeInclusive<u64> = 1000..=31_536_000_000;

/// Lifetime of a download link that a caller may set, in milliseconds. Such a link cannot be revoked.
pub const DOWNLOAD_TTL_MS: RangeInclusive<u64> = 1000..=86_400_000;

/// Lifetime of a download link if the caller sets none.
pub const DEFAULT_DOWNLOAD_TTL: Duration = Duration::from_secs(10 * 60);

/// Maximum number of concurrent downloads of one sandbox through links. Visitors must not take all
/// [`MAX_READERS`](super::MAX_READERS), nor all reads of large files of the agent.
pub const MAX_DOWNLOADS: usize = 8;

/// Maximum duration of one download through a link, for a visitor that reads very slowly. It may end after the link
/// has expired.
pub const MAX_DOWNLOAD_TIME: Duration = Duration::from_secs(6 * 3600);

/// Time for which the reason of a link's end is kept.
pub const LINK_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum number of ended links that are kept.
pub const MAX_ENDED_LINKS: usize = 4096;

/// Time that a link's own port stays open after the end of the link, unless another link needs one.
pub const LINK_LISTENER_KEPT: Duration = Duration::from_secs(3600);

/// Time that the gateway may take to close a port that another link needs.
pub const LINK_LISTENER_CLOSE: Duration = Duration::from_secs(5);

/// Maximum number of links' listeners that wait for the gateway to take them over.
pub const MAX_PENDING_LISTENERS: usize = 16;

/// Maximum number of visitors' connections to the gateway.
pub const MAX_VISITORS: usize = 1024;

/// Maximum size of the head of a response from a sandbox, in bytes.
pub const MAX_PREVIEW_HEAD_BYTES: usize = 256 * 1024;

/// Maximum number of headers of a response from a sandbox.
pub const MAX_PREVIEW_HEADERS: usize = 256;

/// Maximum number of idle connections to one port of a sandbox that are kept for further requests.
pub const MAX_IDLE_TUNNELS: usize = 32;

/// Time for which an idle connection to a port of a sandbox is kept.
pub const IDLE_TUNNEL: Duration = Duration::from_secs(30);

/// How long a connection to a port of a sandbox may be silent after one of its ends has closed its direction.
pub const HALF_CLOSED_SILENCE: Duration = Duration::from_secs(120);

/// Maximum number of connections to a published port.
pub const MAX_PUBLISHED_CONNECTIONS: usize = 128;

/// Further connections that a publisher accepts, so that an idle connection can be closed for a new one.
pub const EXTRA_PUBLISHED_CONNECTIONS: usize = 16;

/// Idle time after which a connection to a published port may be closed for a new one, if its visitor has sent
/// anything.
pub const PUBLISHED_IDLE: Duration = Duration::from_secs(30);

/// Time to pull the image that publishes ports, if another image can replace it.
pub const PUBLISHER_PULL: Duration = Duration::from_secs(60);

/// Time from a publisher's start until it listens. After that it is used as it is.
pub const PUBLISHER_READY: Duration = Duration::from_secs(2);

/// Time that a publisher's own address may take to respond. It does not respond only from another network than the
/// host's.
pub const PUBLISHER_PROBE: Duration = Duration::from_millis(250);

/// Minimum lifetime of a working publisher.
pub const PUBLISHER_LIFE: Duration = Duration::from_secs(10);

/// Number of consecutive publishers with a shorter lifetime after which only the next sweep creates another.
pub const PUBLISHER_TRIES: u32 = 3;
