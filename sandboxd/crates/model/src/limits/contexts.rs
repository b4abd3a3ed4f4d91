//! Limits of contexts.

use std::time::Duration;

/// Maximum number of contexts of a sandbox.
pub const MAX_CONTEXTS: usize = 8;

/// Maximum length of the code of a run in bytes.
pub const MAX_CODE_BYTES: usize = 1024 * 1024;

/// Maximum length of the request body of a run in bytes: code of which every byte is escaped.
pub const MAX_RUN_BODY_BYTES: usize = 6 * MAX_CODE_BYTES + 4096;

/// Maximum size of JSON in a result or a display, in bytes. Decoded, it takes much more memory.
pub const MAX_DISPLAY_JSON_BYTES: usize = 256 * 1024;

/// Time that the agent may take to end a run whose time limit expired, for all steps of its escalation, before the
/// container is restarted.
pub const END_RUN: Duration = Duration::from_secs(8);

/// The same for a context that is closed or restarted.
pub const CLOSE_CONTEXT: Duration = Duration::from_secs(8);
