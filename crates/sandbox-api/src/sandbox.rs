//! Request and response bodies for sandboxes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::repository::WorkspaceRepository;
pub use crate::string_map::StringMap;
use crate::{SandboxId, SnapshotId, object};

/// Request body of `POST /v1/sandboxes`. Only the session key is required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateSandbox {
    /// Identifies the session, 1 to 512 bytes: `chat:<id>` or `tmp:<id>`.
    pub session_key: String,
    /// `node24` (default) or `python3.13`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Idle time in milliseconds after which the sandbox may be parked, 10000 to 21600000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ttl_ms: Option<u64>,
    /// Size of the sandbox.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Hosts that the sandbox may reach.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Ports that previews may expose: at most 4, each 1 to 65535.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<u32>>,
    /// Image to use instead of the default. The operator must allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Environment variables of every command: at most 64 entries and 32 KiB.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, String>>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<StringMap>,
    /// Names in `env` whose values are secret, each 8 to 4096 bytes long. In everything that a command writes to its
    /// outputs, and in terminals, `[NAME]` replaces such a value. Other encodings of it, such as base64, are not
    /// replaced, nor are files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_env: Option<Vec<String>>,
    /// Stored with the sandbox and returned unchanged: at most 64 entries and 32 KiB.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, String>>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<StringMap>,
    /// First files of a new sandbox. Default: none.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<SnapshotSource>))]
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceSource>,
    /// Python packages of a new sandbox: at most 64 names with versions, such as `numpy==2.*`. They are resolved
    /// once for all sandboxes that ask for the same, and built once if the index has no wheels. The network policy must allow the package index. Not together with
    /// `workspace`. Default: those of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<Vec<String>>,
    /// Snapshots that are made automatically. Default: none. If the session already has a sandbox, they are set for it.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<Checkpoints>,
}

/// Snapshots of a sandbox that are made automatically. With neither `afterCommand` nor `everyMs`, none are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Checkpoints {
    /// Whether one is made after each command and each change of files through the API. Commands in close succession
    /// share one. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_command: Option<bool>,
    /// Time in milliseconds between two, 10000 to 86400000. None is made if nothing has run since the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// Number that is kept, 1 to 1000, default 50. Older ones are deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
}

/// Where the first files of a sandbox come from: a snapshot or a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, try_from = "SourceFields")]
pub enum WorkspaceSource {
    /// The files of a snapshot.
    Snapshot(SnapshotSource),
    /// The files of a repository.
    Repository(RepositorySource),
}

/// A snapshot from which the first files of a sandbox come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkspaceSource))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotSource {
    /// Snapshot whose files and values the sandbox gets.
    pub snapshot_id: SnapshotId,
}

/// A repository from which the first files of a sandbox come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RepositorySource {
    /// `owner/name`, an address that begins with `https://`, the name of an npm package, or `dir:name` for a directory that the
    /// operator allows. At most 512 bytes.
    pub repository: String,
    /// A branch, a tag or the hash of a commit. Default: the default branch, or the latest version of a package.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub git_ref: Option<String>,
    /// A version such as `1.2.3`. Not together with `ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl WorkspaceSource {
    /// The files of a snapshot.
    pub fn snapshot(snapshot_id: SnapshotId) -> Self {
        Self::Snapshot(SnapshotSource { snapshot_id })
    }

    /// The files of the default branch of a repository, or of the latest version of a package.
    pub fn repository(name: impl Into<String>) -> Self {
        Self::Repository(RepositorySource { repository: name.into(), ..RepositorySource::default() })
    }
}

/// The fields of both sources. An untagged enum would say only that none of its variants matches.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SourceFields {
    snapshot_id: Option<SnapshotId>,
    repository: Option<String>,
    #[serde(rename = "ref")]
    git_ref: Option<String>,
    version: Option<String>,
}

impl TryFrom<SourceFields> for WorkspaceSource {
    type Error = &'static str;

    fn try_from(fields: SourceFields) -> Result<Self, Self::Error> {
        let SourceFields { snapshot_id, repository, git_ref, version } = fields;
        match (snapshot_id, repository) {
            (Some(_), None) if git_ref.is_some() || version.is_some() => {
                Err("must not have ref or version without repository")
            }
            (Some(id), None) => Ok(Self::snapshot(id)),
            (None, Some(repository)) => {
                Ok(Self::Repository(RepositorySource { repository, git_ref, version }))
            }
            (None, None) | (Some(_), Some(_)) => Err("must have either snapshotId or repository"),
        }
    }
}

/// Size of a sandbox. Every absent field has a default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Number of processors, 1 to 8, default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u64>,
    /// Memory in MiB without swap, 256 to 16384, default 2048.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Maximum number of processes and threads, 16 to 4096, default 512.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// Size of the workspace in MiB, 64 to 65536, default 2048.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

/// Network policy of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// One of these modes:
    /// - `default`: the public internet.
    /// - `allowlist`: the hosts of `allow`.
    /// - `none`: no network.
    /// - `open`: everything that the daemon's machine can reach. The operator must allow it. A change to or from
    ///   `open` requires a parked sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Each entry is `example.com`, `*.example.com` (its subdomains), `*` (every name) or an address. An entry
    /// applies to ports 80 and 443, or only to the port after a `:`. In mode `default`, entries add ports, and
    /// addresses that may be reached without a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
}

/// Response of `POST /v1/sandboxes`: the session's sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SandboxCreated {
    /// Id of the sandbox.
    pub sandbox_id: SandboxId,
    /// Whether the sandbox was created. False if the session already had one.
    pub created: bool,
    /// Always `running`.
    pub state: SandboxState,
    /// Whether the sandbox was parked and had to be started again.
    pub woken: bool,
    /// Names of requested fields that differ from the existing sandbox and were not applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// The engine's id of the sandbox's image: `sha256:` and 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// The repository whose files the sandbox was created with. Absent if it was created without one, or existed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<WorkspaceRepository>,
}

/// Lifecycle state of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum SandboxState {
    /// The container is being created.
    Creating,
    /// The container runs.
    Running,
    /// The sandbox has files but no container. The next request for it starts one.
    Parked,
    /// The sandbox could not be created or removed. The daemon removes it.
    Failed,
    /// The sandbox's files are missing on the engine. The sandbox is kept, and is parked again when the files are
    /// back. Until then it can only be inspected and deleted.
    Lost,
    /// The sandbox is deleted.
    Deleted,
}

/// A sandbox: its configuration and its current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// Id of the sandbox.
    pub sandbox_id: SandboxId,
    /// Key of the session that the sandbox belongs to.
    pub session_key: String,
    /// Person or program of the project that it belongs to. Absent if it was created with a token for the whole project.
    /// Sandboxes of several subjects may have the same session key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Lifecycle state.
    pub state: SandboxState,
    /// `node24` or `python3.13`.
    pub runtime: String,
    /// Tag of the image.
    pub image: String,
    /// Size of the sandbox.
    pub resources: Resources,
    /// Network policy.
    pub network: Network,
    /// Ports that previews may expose.
    pub ports: Vec<u16>,
    /// Names of the environment variables that every command gets. Their values are never returned.
    pub env_keys: Vec<String>,
    /// Names of those whose values are replaced in the output of commands and terminals.
    #[serde(default)]
    pub secret_env: Vec<String>,
    /// Metadata from the create request.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub metadata: StringMap,
    /// Snapshots that are made automatically, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<Checkpoints>,
    /// Id of the automatic snapshot after the last command or change of files. It exists, or is made in a moment. Absent
    /// if nothing has changed since the daemon started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<SnapshotId>,
    /// True if the sandbox is parked and the remote store of snapshots may not have its last files, for example because it did
    /// not answer in time. They are sent later. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint_pending: bool,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of last use.
    pub last_active_at: Timestamp,
    /// Idle time in milliseconds after which the sandbox is parked.
    pub idle_ttl_ms: u64,
    /// When a running sandbox is parked, or a parked one is deleted with its files, if it is not used before. Null
    /// while the sandbox is in use, changes state or is lost.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub expires_at: Option<Timestamp>,
    /// Number of running commands that the daemon knows of.
    pub running_commands: u32,
    /// Current resource usage. Null in lists, and if the sandbox does not run.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub usage: Option<Usage>,
    /// Hardening that the engine applied. Null until this daemon starts or finds the container for the first time.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub posture: Option<Posture>,
}

/// Resource usage of a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Memory of all processes and memory-backed files in bytes, without the page cache.
    pub memory_bytes: u64,
    /// Number of processes and threads, with those of up to two shells that wait for commands.
    pub pids: u64,
    /// Disk space that the workspace and the caches beside it use, in bytes. Null if the workspace has no disk of its
    /// own, or if the value is unknown.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub disk_bytes: Option<u64>,
    /// Processor time since the container was started, in milliseconds.
    pub cpu_ms: u64,
}

/// Hardening of a sandbox's container, as the engine applied it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Posture {
    /// Whether the root file system is read-only. Only the mounts are writable.
    pub readonly_rootfs: bool,
    /// Capabilities of the container: none.
    pub capabilities: Vec<String>,
    /// Whether programs cannot gain privileges (`no_new_privs`).
    pub no_new_privileges: bool,
    /// Seccomp profile. `sandboxd` is the daemon's own.
    pub seccomp: String,
    /// User and group of the container, as `uid:gid`.
    pub user: String,
    /// Maximum number of processes and threads: that of the sandbox, and two for shells that wait for commands.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub pids_limit: Option<i64>,
    /// Memory limit in bytes.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub memory_bytes: Option<i64>,
    /// Swap beyond the memory limit in bytes: 0.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub swap_bytes: Option<i64>,
    /// Processor limit in billionths of a processor.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub nano_cpus: Option<i64>,
    /// Size limit of the workspace in bytes. Null if no quota is enforced.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub disk_quota_bytes: Option<u64>,
    /// Name of the base whose files the workspace shares with other sandboxes, as 64 hexadecimal digits. Null if all files
    /// are the sandbox's own.
    #[serde(default)]
    pub base: Option<String>,
    /// `none`, or the name of a bridge in mode `open`.
    pub network: String,
    /// OCI runtime.
    pub runtime: String,
    /// The engine's id of the image: `sha256:` and 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// What this host cannot enforce and what else weakens the hardening, one phrase each.
    pub unenforced: Vec<String>,
}

/// Response of `GET /v1/sandboxes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SandboxList {
    /// Sandboxes, sorted by id.
    pub sandboxes: Vec<Sandbox>,
    /// Pass as `cursor` to get the next page. Null on the last page.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

/// Query parameters of `GET /v1/sandboxes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(rename_all = "camelCase")]
pub struct ListSandboxes {
    /// Returns only the sandbox of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Returns only sandboxes in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<SandboxState>,
    /// Maximum number of results, 1 to 1000, default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `nextCursor` of the previous page. Returns the sandboxes after it.
    #[cfg_attr(feature = "openapi", param(value_type = Option<SandboxId>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Request body of `POST /v1/sandboxes/{id}:park`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ParkSandbox {
    /// Parks the sandbox even if a command or a program on a terminal runs. A command ends as `lost`. Without `force`
    /// the request fails with 409 `wrong_state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// Request body of `POST /v1/sandboxes/{id}:touch`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TouchSandbox {
    /// New idle time in milliseconds, 10000 to 21600000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ttl_ms: Option<u64>,
}
