//! Limits of sandboxes' outbound connections.

use std::ops::RangeInclusive;
use std::time::Duration;

use sandbox_api::limits as shared;

/// Maximum length of a host name or address that a sandbox requests, in bytes.
pub const MAX_HOST_BYTES: usize = shared::MAX_HOST_BYTES;

/// Maximum number of hosts in a network policy.
pub const MAX_NETWORK_RULES: usize = shared::MAX_NETWORK_RULES;

/// Maximum length of one host in a network policy, in bytes: a name and a port.
pub const MAX_NETWORK_RULE_BYTES: usize = shared::MAX_NETWORK_RULE_BYTES;

/// Maximum number of outbound connections of one sandbox. The agent has the same limit.
pub const MAX_EGRESS_CONNECTIONS: usize = 256;

/// New outbound connections of one sandbox per second. A second's worth may come at once.
pub const EGRESS_CONNECTIONS_PER_SECOND: u32 = 100;

/// Maximum number of concurrent look-ups of names for all sandboxes. Each occupies a thread until the system's
/// resolver has finished.
pub const MAX_LOOKUPS: usize = 256;

/// Maximum number of concurrent look-ups for one sandbox, so that a few sandboxes cannot delay the others.
pub const MAX_LOOKUPS_EACH: usize = 4;

/// Time to resolve a name.
pub const EGRESS_RESOLVE: Duration = Duration::from_secs(10);

/// Time to connect to a host, for all of its addresses together.
pub const EGRESS_CONNECT: Duration = Duration::from_secs(20);

/// Time to connect to one address of a host.
pub const EGRESS_CONNECT_EACH: Duration = Duration::from_secs(5);

/// Number of addresses of one name that are tried.
pub const MAX_ADDRESSES_TRIED: usize = 8;

/// Time without any traffic after which an outbound connection is closed.
pub const EGRESS_SILENCE: Duration = Duration::from_secs(10 * 60);

/// Time from a client's first byte until it has named its host, where connections are inspected.
pub const EGRESS_INSPECT: Duration = Duration::from_secs(10);

/// Bytes within which a client must have named its host.
pub const MAX_INSPECTED_BYTES: usize = 64 * 1024;

/// Maximum size of the head of an inspected HTTP request, in bytes.
pub const MAX_EGRESS_HEAD_BYTES: usize = 64 * 1024;

/// Bytes copied at once for each direction of an outbound connection.
pub const EGRESS_PART_BYTES: usize = 32 * 1024;

/// Pauses before an agent is asked again for its sandbox's outbound connections, from the first to the longest.
pub const EGRESS_RETRY: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(10);

/// Number of denied hosts that are kept per sandbox, the last ones.
pub const MAX_DENIALS: usize = 100;

/// Maximum number of concurrent streams of one sandbox's denials.
pub const MAX_DENIAL_STREAMS: usize = 64;

/// Number of denials that wait for the reader of a stream. More are dropped, the oldest first.
pub const DENIAL_QUEUE: usize = 64;

/// Maximum number of hosts that are allowed for one use, for each sandbox. For one more, the oldest is removed.
pub const MAX_PASSES: usize = 32;

/// Time within which a host that is allowed for one use must be connected to.
pub const PASS_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Time without an open connection after which one use of a host is over.
pub const PASS_IDLE: Duration = Duration::from_secs(5);

/// Maximum length of the reason that a process receives for a refused connection, in bytes. The agent cuts longer
/// ones.
pub const MAX_REFUSAL_BYTES: usize = 512;

/// Maximum size of a bundle of certificates, in bytes.
pub const MAX_CA_BUNDLE_BYTES: u64 = 4 * 1024 * 1024;
