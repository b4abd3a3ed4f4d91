//! Sandboxes: asking for one by session key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SandboxId;

/// `POST /v1/sandboxes`: create or reconnect. Only the session key is required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateSandbox {
    /// Names the session, 1 to 512 bytes: `chat:<id>` or `tmp:<id>`.
    pub session_key: String,
    /// `node24` (default) or `python3.13`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Idle time in milliseconds after which the sandbox may be parked, 10000 to 21600000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ttl_ms: Option<u64>,
    /// How large the sandbox is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// What the sandbox may reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Ports that may be previewed: up to 4 of 1 to 65535.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<u32>>,
    /// Another image. Not offered yet: the answer lists it as ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Environment of every command. Not offered yet: the answer lists it as ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<StringMap>,
    /// Kept with the sandbox. Not offered yet: the answer lists it as ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<StringMap>,
}

/// How large a sandbox is; what is absent has a default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// 1 to 8, default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u64>,
    /// MiB of memory without swap, 256 to 16384, default 2048.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Processes and threads, 16 to 4096, default 512.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// MiB of the workspace. Not offered yet: the answer lists it as ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

/// What a sandbox may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// `default` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// The sandbox of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxCreated {
    /// Its id.
    pub sandbox_id: SandboxId,
    /// False where the session had one already.
    pub created: bool,
    /// `running`.
    pub state: String,
    /// Whether it had to be started again.
    pub woken: bool,
    /// Wishes that an existing sandbox does not follow, by field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// String pairs, in order of their names.
pub type StringMap = BTreeMap<String, String>;
