//! Limits of the tools of a context.

use std::time::Duration;

/// Maximum number of tools of a context.
pub const MAX_TOOLS: usize = 128;

/// Maximum length of the name of a tool in bytes.
pub const MAX_TOOL_NAME_BYTES: usize = 64;

/// Maximum size of the definitions of all tools of a context in bytes: names, descriptions, and schemas as JSON.
pub const MAX_TOOLS_BYTES: usize = 256 * 1024;

/// Maximum length of the request body that opens a context in bytes: definitions of which every byte is escaped.
pub const MAX_OPEN_CONTEXT_BODY_BYTES: usize = 6 * MAX_TOOLS_BYTES + 256 * 1024;

/// Maximum number of schemas in a schema of a tool, with its references expanded.
pub const MAX_SCHEMA_SIZE: usize = 4096;

/// Maximum number of levels of a schema of a tool.
pub const MAX_SCHEMA_DEPTH: usize = 64;

/// Maximum number of patterns in the schemas of all tools of a context.
pub const MAX_SCHEMA_PATTERNS: usize = 128;

/// Maximum length of a pattern in bytes.
pub const MAX_SCHEMA_PATTERN_BYTES: usize = 1024;

/// Maximum size of a compiled pattern in bytes.
pub const MAX_PATTERN_PROGRAM_BYTES: usize = 256 * 1024;

/// Maximum number of steps of the check of a value: the size of the schema times that of the value.
pub const MAX_SCHEMA_STEPS: usize = 10_000_000;

/// Maximum size of the arguments and of the result of a call as JSON, in bytes.
pub const MAX_TOOL_VALUE_BYTES: usize = 1024 * 1024;

/// Maximum length of the request body that answers a call in bytes: a result of which every byte is escaped.
pub const MAX_TOOL_ANSWER_BODY_BYTES: usize = 6 * MAX_TOOL_VALUE_BYTES + 4096;

/// Maximum length of the message of an error in bytes.
pub const MAX_TOOL_ERROR_BYTES: usize = 16 * 1024;

/// Maximum number of calls of a context that wait for an answer.
pub const MAX_WAITING_TOOL_CALLS: usize = 16;

/// Default time for the answer to a call.
pub const DEFAULT_TOOL_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time for the answer to a call.
pub const MAX_TOOL_TIMEOUT: Duration = Duration::from_secs(600);
