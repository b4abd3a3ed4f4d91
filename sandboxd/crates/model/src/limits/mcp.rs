//! Limits of wrapped servers.

/// Maximum number of wrapped servers of a sandbox.
pub const MAX_MCP_SERVERS: usize = 16;

/// Maximum length of the name of a wrapped server in bytes.
pub const MAX_MCP_NAME_BYTES: usize = 64;

/// Maximum number of tools of a wrapped server that are recorded.
pub const MAX_MCP_TOOLS: usize = 256;

/// Maximum length of the name of a tool in bytes.
pub const MAX_MCP_TOOL_NAME_BYTES: usize = 1024;

/// Maximum total length of the program and the arguments of a wrapped server in bytes.
pub const MAX_MCP_COMMAND_BYTES: usize = 32 * 1024;

/// Maximum length of a package's version in bytes.
pub const MAX_MCP_VERSION_BYTES: usize = 64;
