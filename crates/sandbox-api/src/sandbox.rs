//! Sandboxes: asking for one by session key.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{SandboxId, object};

/// `POST /v1/sandboxes`: create or reconnect. Only the session key is required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// What the sandbox may reach.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Ports that may be previewed: up to 4 of 1 to 65535.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<u32>>,
    /// Another image; one the operator allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Environment of every command: up to 64 entries, 32 KiB.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, String>>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<StringMap>,
    /// Kept with the sandbox and returned as it is: up to 64 entries, 32 KiB.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, String>>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<StringMap>,
}

/// How large a sandbox is; what is absent has a default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
    /// MiB the workspace may hold, 64 to 65536, default 2048.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

/// What a sandbox may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// `default` (the public internet), `allowlist` (the hosts of `allow`), `none`, or where the operator allows it `open` (whatever
    /// the daemon's machine reaches; from and to it only while the sandbox is parked).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Hosts: `example.com`, `*.example.com` (names beneath it), `*` (every name) or an address, each on ports 80 and 443 or on the
    /// one behind `:`. With `default` they are more ports, and the addresses that may be asked for without a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
}

/// The sandbox of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SandboxCreated {
    /// Its id.
    pub sandbox_id: SandboxId,
    /// False where the session had one already.
    pub created: bool,
    /// `running`.
    pub state: SandboxState,
    /// Whether it had to be started again.
    pub woken: bool,
    /// Wishes that an existing sandbox does not follow, by field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// Where a sandbox is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum SandboxState {
    /// Its container is being made.
    Creating,
    /// Its container runs.
    Running,
    /// It has its files and no container; the next request brings one back.
    Parked,
    /// It could not be made or removed; it will be removed.
    Failed,
    /// Its files are missing on the engine. It is kept, and is parked again when they are back; until then it can only
    /// be looked at and deleted.
    Lost,
    /// It is gone.
    Deleted,
}

/// A sandbox: what it was asked to be and what it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// Its id.
    pub sandbox_id: SandboxId,
    /// The session it belongs to.
    pub session_key: String,
    /// Where it is in its life.
    pub state: SandboxState,
    /// `node24` or `python3.13`.
    pub runtime: String,
    /// Tag of its image.
    pub image: String,
    /// How large it is.
    pub resources: Resources,
    /// What it may reach.
    pub network: Network,
    /// Ports that may be previewed.
    pub ports: Vec<u16>,
    /// Names of the variables every command gets; never their values.
    pub env_keys: Vec<String>,
    /// As the caller gave it.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub metadata: StringMap,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used.
    pub last_active_at: Timestamp,
    /// How long it may be idle before it is parked, in milliseconds.
    pub idle_ttl_ms: u64,
    /// When it is parked (running) or deleted with its files (parked) if nobody uses it until then; null
    /// while a command runs.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub expires_at: Option<Timestamp>,
    /// Commands that run now, as far as the daemon was told of them.
    pub running_commands: u32,
    /// What it takes now; null where it does not run, and in lists.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub usage: Option<Usage>,
    /// The hardening that was really applied; null before its container was started for the first time by
    /// this daemon.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub posture: Option<Posture>,
}

/// What a sandbox takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Memory of all its processes and of its memory-backed files, without the page cache.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
    /// What its workspace takes on the disk, caches beside it included; null where that is not known.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub disk_bytes: Option<u64>,
    /// Processor time since its container was started, in milliseconds.
    pub cpu_ms: u64,
}

/// The hardening of a sandbox's container, as the engine applied it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Posture {
    /// Nothing but its mounts can be written.
    pub readonly_rootfs: bool,
    /// Capabilities it has: none.
    pub capabilities: Vec<String>,
    /// No program gives it more than it has.
    pub no_new_privileges: bool,
    /// `sandboxd`: our own profile.
    pub seccomp: String,
    /// `uid:gid`
    pub user: String,
    /// Processes and threads.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub pids_limit: Option<i64>,
    /// Memory.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub memory_bytes: Option<i64>,
    /// Swap beyond that memory: 0.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub swap_bytes: Option<i64>,
    /// Billionths of a processor.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub nano_cpus: Option<i64>,
    /// What the workspace may hold; null where nothing holds it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub disk_quota_bytes: Option<u64>,
    /// `none`; the name of a bridge where it is open.
    pub network: String,
    /// OCI runtime.
    pub runtime: String,
    /// What this host cannot enforce, and what else weakens it: one phrase each.
    pub unenforced: Vec<String>,
}

/// `GET /v1/sandboxes`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SandboxList {
    /// In order of their ids.
    pub sandboxes: Vec<Sandbox>,
    /// What to pass as `cursor` for those that follow; null at the end.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

/// `GET /v1/sandboxes`: which of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(rename_all = "camelCase")]
pub struct ListSandboxes {
    /// Only that of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Only those in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<SandboxState>,
    /// At most so many, 1 to 1000, default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Those after this one: `nextCursor` of the page before.
    #[cfg_attr(feature = "openapi", param(value_type = Option<SandboxId>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// `POST /v1/sandboxes/{id}:park`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ParkSandbox {
    /// Also where a command runs, which ends as `lost`. Otherwise that is 409 `wrong_state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// `POST /v1/sandboxes/{id}:touch`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TouchSandbox {
    /// Another idle time from now on, in milliseconds, 10000 to 21600000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ttl_ms: Option<u64>,
}

/// String pairs, in order of their names.
pub type StringMap = BTreeMap<String, String>;
