//! Limits of accounts, sessions and invitations.

use std::num::NonZeroU32;
use std::time::Duration;

use listen::throttle::Allowance;

/// Maximum length of a name in characters.
pub const MAX_NAME_CHARS: usize = 64;

/// Minimum length of a password in characters (NIST SP 800-63B recommends at least 8).
pub const MIN_PASSWORD_CHARS: usize = 12;

/// Maximum length of a password in bytes.
pub const MAX_PASSWORD_BYTES: usize = 1024;

/// Memory of one hash of a password in KiB, its passes and its lanes: OWASP's recommendation for argon2id.
pub const HASH_MEMORY_KIB: u32 = 19 * 1024;
/// See [`HASH_MEMORY_KIB`].
pub const HASH_PASSES: u32 = 2;
/// See [`HASH_MEMORY_KIB`].
pub const HASH_LANES: u32 = 1;

/// Maximum number of passwords that are hashed at once. Each takes memory and a thread before anyone is authenticated.
pub const MAX_HASHES: usize = 2;

/// Maximum number of requests that wait for a hash.
pub const MAX_WAITING_HASHES: usize = 16;

/// Attempts to sign in, or to accept an invitation, by one address.
pub const ATTEMPTS_BY_ADDRESS: Allowance = Allowance {
    failures: NonZeroU32::new(20).expect("20 is not zero"),
    period: Duration::from_secs(6),
    max_peers: 1024,
};

/// Attempts with the name of one account, whether or not it exists.
pub const ATTEMPTS_BY_ACCOUNT: NonZeroU32 = NonZeroU32::new(10).expect("10 is not zero");

/// Time after which another attempt is permitted.
pub const ACCOUNT_PERIOD: Duration = Duration::from_secs(6);

/// Maximum number of names whose attempts are counted separately. More of them share one count.
pub const MAX_COUNTED_NAMES: usize = 1024;

/// Time without a request after which a session ends.
pub const SESSION_IDLE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Time after which a session ends in any case.
pub const SESSION_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How exactly the last use of a session is stored.
pub const USE_PRECISION: Duration = Duration::from_secs(60);

/// Maximum number of sessions of a user. The one that is unused longest ends when another begins.
pub const MAX_SESSIONS: u32 = 50;

/// Maximum length of what is stored of a browser's name, in characters.
pub const MAX_AGENT_CHARS: usize = 200;

/// Interval at which requests in progress look whether their session still exists. Changes by this process end them
/// at once, and those by the command line within this time.
pub const SESSION_CHECK: Duration = Duration::from_secs(2);

/// Time until an invitation expires.
pub const INVITATION_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Maximum number of open invitations.
pub const MAX_INVITATIONS: u32 = 100;

/// Maximum number of accounts.
pub const MAX_USERS: u32 = 1000;
