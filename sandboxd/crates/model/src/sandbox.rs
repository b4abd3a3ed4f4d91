//! Specifications of sandboxes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sandbox_api::{StringMap, limits as shared};

use super::field::checked;
use super::mcp::OWN_SANDBOX_KEYS;
use super::{Checkpoints, FieldError, NetworkPolicy, Owner, SessionKey, packages, repository};

pub use sandbox_api::limits::{DISK_MB, IDLE_TTL_MS, MAX_PORTS, MEMORY_MB, PIDS, VCPUS};

/// Idle time if neither caller nor operator sets one.
pub const DEFAULT_IDLE_TTL: Duration = Duration::from_millis(shared::DEFAULT_IDLE_TTL_MS);

/// Maximum number of entries of a sandbox's environment or metadata.
pub const MAX_MAP_ENTRIES: usize = 64;
/// Maximum total size of the names and values of a map, in bytes.
pub const MAX_MAP_BYTES: usize = 32 * 1024;

/// Everything that a sandbox is created from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// Whom it belongs to.
    pub owner: Owner,
    /// Session that the sandbox belongs to.
    pub session_key: SessionKey,
    /// Runtime that the image must offer.
    pub runtime: Runtime,
    /// Tag of an image that the operator allows. `None` means the daemon's own image.
    pub image: Option<String>,
    /// Idle time after which the sandbox is parked.
    pub idle_ttl: Duration,
    /// Size limits.
    pub resources: Resources,
    /// Network policy.
    pub network: NetworkPolicy,
    /// Ports for previews.
    pub ports: Vec<u16>,
    /// Environment of every command. A command's own variables take precedence.
    pub env: StringMap,
    /// Names in `env` whose values are replaced in the output of commands.
    pub secret_env: Vec<String>,
    /// Kept for the caller and returned unchanged.
    pub metadata: StringMap,
    /// Snapshots that are made automatically.
    pub checkpoints: Option<Checkpoints>,
}

impl SandboxSpec {
    /// The specification of a session of the operator's project without further options.
    pub fn new(session_key: SessionKey) -> Self {
        Self {
            owner: Owner::default(),
            session_key,
            runtime: Runtime::default(),
            image: None,
            idle_ttl: DEFAULT_IDLE_TTL,
            resources: Resources::default(),
            network: NetworkPolicy::default(),
            ports: Vec::new(),
            env: StringMap::new(),
            secret_env: Vec::new(),
            metadata: StringMap::new(),
            checkpoints: None,
        }
    }
}

/// Stands for the session key of a sandbox that waits for its session.
pub const POOL_KEY: &str = "sandboxd:pool";

/// Checks the session key of a caller's sandbox.
pub fn session_key(given: &str) -> Result<SessionKey, FieldError> {
    let reserved = [
        (OWN_SANDBOX_KEYS, "wrapped servers"),
        (repository::SANDBOX_KEYS, "repositories"),
        (packages::SANDBOX_KEYS, "packages"),
        (POOL_KEY, "sandboxes that wait"),
    ];
    if let Some((start, what)) = reserved.into_iter().find(|(start, _)| given.starts_with(start)) {
        let problem = format!("must not begin with `{start}`, which is for {what}");
        return Err(FieldError::new("sessionKey", problem));
    }
    Ok(given.parse()?)
}

/// Runtime of a sandbox. The same image offers both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Runtime {
    /// Node 24.
    #[default]
    Node24,
    /// Python 3.13.
    Python313,
}

impl Runtime {
    /// Both runtimes.
    pub const ALL: [Self; 2] = [Self::Node24, Self::Python313];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        let [node24, python313] = shared::RUNTIMES;
        match self {
            Self::Node24 => node24,
            Self::Python313 => python313,
        }
    }
}

/// The runtime does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown runtime {0:?}")]
pub struct UnknownRuntime(pub String);

impl FromStr for Runtime {
    type Err = UnknownRuntime;

    fn from_str(text: &str) -> Result<Self, UnknownRuntime> {
        Self::ALL
            .into_iter()
            .find(|runtime| runtime.as_str() == text)
            .ok_or_else(|| UnknownRuntime(text.to_owned()))
    }
}

/// How the daemon and a sandbox's agent connect. Fixed when the container is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The agent connects to a socket that is mounted into the container.
    Socket,
    /// The daemon connects through the engine, if no socket can be shared.
    Engine,
}

impl Transport {
    /// Both transports.
    pub const ALL: [Self; 2] = [Self::Socket, Self::Engine];

    /// The name in labels and settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Engine => "engine",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.as_str() == text)
    }
}

/// Size limits of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    vcpus: u8,
    memory_mb: u32,
    disk_mb: u32,
    pids: u32,
}

impl Resources {
    /// Checks each number against its range. Absent numbers get their defaults.
    pub fn new(request: sandbox_api::sandbox::Resources) -> Result<Self, FieldError> {
        Ok(Self {
            vcpus: checked("resources.vcpus", request.vcpus.unwrap_or(shared::DEFAULT_VCPUS), VCPUS)? as u8,
            memory_mb: checked(
                "resources.memoryMb",
                request.memory_mb.unwrap_or(shared::DEFAULT_MEMORY_MB),
                MEMORY_MB,
            )? as u32,
            disk_mb: checked("resources.diskMb", request.disk_mb.unwrap_or(shared::DEFAULT_DISK_MB), DISK_MB)?
                as u32,
            pids: checked("resources.pids", request.pids.unwrap_or(shared::DEFAULT_PIDS), PIDS)? as u32,
        })
    }

    /// Number of processors.
    pub fn vcpus(self) -> u8 {
        self.vcpus
    }

    /// Memory in MiB. There is no swap.
    pub fn memory_mb(self) -> u32 {
        self.memory_mb
    }

    /// Memory in bytes.
    pub fn memory_bytes(self) -> u64 {
        u64::from(self.memory_mb) * 1024 * 1024
    }

    /// Size of the workspace in MiB.
    pub fn disk_mb(self) -> u32 {
        self.disk_mb
    }

    /// Size of the workspace in bytes.
    pub fn disk_bytes(self) -> u64 {
        u64::from(self.disk_mb) * 1024 * 1024
    }

    /// Maximum number of processes and threads.
    pub fn pids(self) -> u32 {
        self.pids
    }
}

impl Default for Resources {
    fn default() -> Self {
        Self::new(sandbox_api::sandbox::Resources::default()).expect("the defaults are within their ranges")
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vcpus, memory_mb, disk_mb, pids } = self;
        write!(f, "vcpus={vcpus},memoryMb={memory_mb},diskMb={disk_mb},pids={pids}")
    }
}

impl FromStr for Resources {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let mut request = sandbox_api::sandbox::Resources::default();
        for pair in text.split(',') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = value.parse().ok();
            match name {
                "vcpus" => request.vcpus = number,
                "memoryMb" => request.memory_mb = number,
                "diskMb" => request.disk_mb = number,
                "pids" => request.pids = number,
                other => return Err(FieldError::new(format!("resources.{other}"), "is not known")),
            }
        }
        Self::new(request)
    }
}

/// Checks a caller's map of texts: [`MAX_MAP_ENTRIES`], [`MAX_MAP_BYTES`], no NUL and no empty name.
pub fn map(field: &str, given: StringMap) -> Result<StringMap, FieldError> {
    if given.len() > MAX_MAP_ENTRIES {
        return Err(FieldError::new(field, format!("must have at most {MAX_MAP_ENTRIES} entries")));
    }
    let bytes: usize = given.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_MAP_BYTES {
        return Err(FieldError::new(field, format!("must be at most {MAX_MAP_BYTES} bytes long")));
    }
    let is_bad = |text: &str| text.contains('\0');
    match given.iter().find(|(name, value)| name.is_empty() || is_bad(name) || is_bad(value)) {
        Some((name, _)) => {
            Err(FieldError::new(format!("{field}.{name}"), "must have a name and no NUL characters"))
        }
        None => Ok(given),
    }
}

/// Checks a caller's variables: like [`map`], and no `=` in a name.
pub fn env(field: &str, given: StringMap) -> Result<StringMap, FieldError> {
    match given.keys().find(|name| name.contains('=')) {
        Some(name) => Err(FieldError::new(format!("{field}.{name}"), "must not have `=` in its name")),
        None => map(field, given),
    }
}

/// Checks a caller's ports: up to [`MAX_PORTS`] distinct ones.
pub fn ports(given: &[u32]) -> Result<Vec<u16>, FieldError> {
    let mut ports = Vec::new();
    for port in given {
        let port = u16::try_from(*port).ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| FieldError::new("ports", "must be 1 to 65535 each"))?;
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    if ports.len() > MAX_PORTS {
        return Err(FieldError::new("ports", format!("must be at most {MAX_PORTS}")));
    }
    Ok(ports)
}

/// A slot in the range of user ids. Each live sandbox has its own user id, because the kernel counts some budgets
/// (inotify, processes, pipes) per user instead of per container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UidSlot(u16);

impl UidSlot {
    /// The first user id. The image has a passwd line for each user id.
    pub const FIRST_UID: u32 = 20_000;

    /// Number of slots: twice the maximum number of running sandboxes.
    pub const COUNT: u16 = 2_000;

    /// The last slot, which the daemon uses for itself.
    pub const LAST: Self = Self(Self::COUNT - 1);

    /// All slots for sessions, lowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::LAST.0).map(Self)
    }

    /// The slot of a user id.
    pub fn of_uid(uid: u32) -> Option<Self> {
        let slot = u16::try_from(uid.checked_sub(Self::FIRST_UID)?).ok()?;
        (slot < Self::COUNT).then_some(Self(slot))
    }

    /// The user and group id.
    pub fn uid(self) -> u32 {
        Self::FIRST_UID + u32::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_have_defaults_and_ranges() {
        let request = sandbox_api::sandbox::Resources::default();
        let defaults = Resources::new(request).unwrap();
        assert_eq!(defaults.to_string(), "vcpus=2,memoryMb=2048,diskMb=2048,pids=512");
        assert_eq!(defaults.to_string().parse(), Ok(defaults));
        let fault =
            Resources::new(sandbox_api::sandbox::Resources { vcpus: Some(9), ..request }).unwrap_err();
        assert_eq!(fault.to_string(), "`resources.vcpus` must be 1 to 8");
    }

    #[test]
    fn the_session_keys_of_wrapped_servers_are_reserved() {
        assert_eq!(session_key("mcp-server").unwrap().as_str(), "mcp-server");
        let fault = session_key("mcp-server:sbx_0123456789abcdef:files").unwrap_err();
        assert_eq!(fault.field, "sessionKey");
        assert!(fault.problem.contains("`mcp-server:`"), "{fault}");
    }

    #[test]
    fn ports_are_limited_and_distinct() {
        assert_eq!(ports(&[3000, 3000, 80]), Ok(vec![3000, 80]));
        assert!(ports(&[0]).is_err());
        assert!(ports(&[65_536]).is_err());
        assert!(ports(&[1, 2, 3, 4, 5]).is_err());
    }

    #[test]
    fn a_slot_is_a_user_id_in_the_range() {
        assert_eq!(UidSlot::of_uid(20_007).map(UidSlot::uid), Some(20_007));
        assert_eq!(UidSlot::of_uid(0), None);
        assert_eq!(UidSlot::of_uid(22_000), None);
        assert!(UidSlot::all().all(|slot| slot != UidSlot::LAST));
    }
}
