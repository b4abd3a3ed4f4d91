//! MCP servers of third parties that run in a sandbox: wrapped servers.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::SandboxId;
use crate::string_map::StringMap;

/// Request body of `POST …/mcp`: a server that reads messages from its standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RegisterMcpServer {
    /// Name, 1 to 64 letters, digits, `-`, `_` or `.`. It is part of the server's URL.
    pub name: String,
    /// Program.
    pub cmd: String,
    /// Arguments of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Working directory, relative to the workspace. Default: the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables of the server. Their values are secret: no response has them. A server with variables runs
    /// in a sandbox of its own, because the commands of a sandbox can read each other's environment.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<std::collections::BTreeMap<String, String>>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<StringMap>,
    /// Whether each start may download the newest version of the server's package. Default: the first start decides the
    /// version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpinned: Option<bool>,
    /// Whether the server may ask the host's user (`elicitation/create`). Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_elicitation: Option<bool>,
    /// Whether the server may use the host's model (`sampling/createMessage`). Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_sampling: Option<bool>,
}

/// A wrapped server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct McpServer {
    /// Sandbox that it belongs to.
    pub sandbox_id: SandboxId,
    /// Name.
    pub name: String,
    /// Path at which it is served over streamable HTTP.
    pub path: String,
    /// Program.
    pub cmd: String,
    /// Arguments of the program, as they were registered.
    pub args: Vec<String>,
    /// Working directory. Null is the workspace.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub cwd: Option<String>,
    /// Names of its environment variables.
    pub env_keys: Vec<String>,
    /// Whether each start may download the newest version.
    pub unpinned: bool,
    /// Whether it may ask the host's user.
    pub allow_elicitation: bool,
    /// Whether it may use the host's model.
    pub allow_sampling: bool,
    /// Version of its package that the first start has chosen. Null if the arguments name the version, or if it has not
    /// started yet.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub version: Option<String>,
    /// SHA-256 of the approved tool list, in hexadecimal. Null until the first start.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub tools_hash: Option<String>,
    /// SHA-256 of each approved tool, by its name. Empty if only the digest of the list is known.
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub tools: StringMap,
    /// Session key of the sandbox that it belongs to.
    pub session_key: String,
    /// Time of the registration (RFC 3339, UTC).
    pub created_at: Timestamp,
}

/// Response of `GET …/mcp`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct McpServerList {
    /// Servers, in order of their names.
    pub servers: Vec<McpServer>,
}

/// Request body of `POST …/mcp/{name}:approve`. Absent fields keep their value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApproveMcpServer {
    /// SHA-256 of the tool list, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_hash: Option<String>,
    /// SHA-256 of each tool, by its name: at most 256. Only with `toolsHash`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<std::collections::BTreeMap<String, String>>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<StringMap>,
    /// Exact version of the server's package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether a tool list or version that was approved before stays, and the request has no effect on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_unset: Option<bool>,
}

/// Response of `POST …/mcp/{name}:open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct McpServerOpened {
    /// Sandbox in which the server runs: the one that it belongs to, or its own.
    pub runs_in: SandboxId,
}
