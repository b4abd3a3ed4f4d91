//! Limits of HTTP requests and connections.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{MAX_SCRIPT_BYTES, MAX_STDIN_BYTES};

/// Maximum number of connections that are served. Further ones wait to be accepted.
pub const MAX_CONNECTIONS: usize = 1024;

/// Time that a client may take to send the head of a request.
pub const REQUEST_HEAD: Duration = Duration::from_secs(10);

/// Time that a client may take to send the body of a request.
pub const REQUEST_BODY: Duration = Duration::from_secs(120);

/// Maximum number of headers of a request.
pub const MAX_HEADERS: usize = 100;

/// Maximum size of the head of a request, in bytes.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Bytes read from a connection at once. More than a head, so that files do not arrive in small pieces.
pub const READ_BYTES: usize = 128 * 1024;

/// Largest request body that needs no share of [`MAX_BODIES_BYTES`], in bytes, so that it never waits. A connection
/// has one at a time, so all of them together are at most [`MAX_CONNECTIONS`] times as large.
pub const SMALL_BODY_BYTES: usize = 64 * 1024;

/// Maximum memory for all larger bodies, in bytes. Further ones wait.
pub const MAX_BODIES_BYTES: usize = 256 * 1024 * 1024;

/// Maximum size of a request without a command and files, in bytes. It allows the environment, metadata and network
/// of a sandbox at their maximum, with full JSON escaping.
pub const MAX_CONTROL_BODY_BYTES: usize = 640 * 1024;

/// Maximum size of a request that starts a command, in bytes: script, arguments and standard input at their
/// maximum, with full JSON escaping.
pub const MAX_COMMAND_BODY_BYTES: usize = 6 * (MAX_SCRIPT_BYTES + MAX_STDIN_BYTES) + MAX_CONTROL_BODY_BYTES;

/// Wrong tokens that one address may send before it must wait.
pub const AUTH_FAILURES: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");

/// Time after which an address that must wait may send one more wrong token.
pub const AUTH_FAILURE_PERIOD: Duration = Duration::from_secs(1);

/// Addresses whose wrong tokens are counted separately. Further addresses share one count.
pub const MAX_AUTH_PEERS: usize = 4096;

/// Time for requests to finish after the daemon was asked to stop.
pub const DRAIN: Duration = Duration::from_secs(10);

/// Seconds that a caller is asked to wait if no slot is free.
pub const RETRY_AFTER_SECONDS: u64 = 5;

/// Number of sandboxes on one page of a list if the caller sets none.
pub const DEFAULT_PAGE: u32 = 100;

/// Maximum number of sandboxes on one page of a list.
pub const MAX_PAGE: u32 = 1000;

/// Bytes of a caller's value that an error message repeats.
pub const MAX_ECHO_BYTES: usize = 256;

/// Maximum length of the text about one field, and of each text in the details of an error, in bytes.
pub const MAX_PROBLEM_BYTES: usize = 1024;

/// Maximum length of an error message, in bytes.
pub const MAX_ERROR_BYTES: usize = 2048;

/// Minimum length of the admin token if other machines can connect, and of a front's key, in characters.
pub const MIN_TOKEN_CHARS: usize = 32;

/// Maximum number of tool tokens. Each is compared with the token of a request for a surface.
pub const MAX_TOOL_TOKENS: usize = 1000;

/// Maximum length of a tool token's name in bytes.
pub const MAX_TOOL_TOKEN_NAME_BYTES: usize = 64;
