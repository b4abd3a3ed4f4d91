//! The agent's own environment: its settings, and what it passes on to commands.
//!
//! The container's environment carries both. Names that begin with `SANDBOX_AGENT_` are the agent's and
//! never reach a command; the kernel's copy is out of reach because the agent is not dumpable.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

const OWN_PREFIX: &str = "SANDBOX_AGENT_";

/// Where the agent offers itself to `sandbox-agent dial`: an abstract name (unix(7)), which belongs to
/// the container's network namespace and is taken before the first command runs.
pub(crate) const DIAL_NAME: &[u8] = b"sandbox-agent";

/// What the agent was started with.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Proves to sandboxd that this is the agent.
    pub(crate) secret: String,
    /// The socket to dial; without it the agent waits for `sandbox-agent dial`.
    pub(crate) socket: Option<PathBuf>,
    pub(crate) workspace: PathBuf,
}

impl Settings {
    /// Reads the settings; names the variable that is missing.
    pub(crate) fn from_env() -> Result<Self, &'static str> {
        let required = |name: &'static str| std::env::var(name).map_err(|_| name);
        Ok(Self {
            secret: required("SANDBOX_AGENT_SECRET")?,
            socket: std::env::var_os("SANDBOX_AGENT_SOCKET").map(PathBuf::from),
            workspace: required("SANDBOX_AGENT_WORKSPACE")?.into(),
        })
    }
}

/// What every command finds in its environment.
pub(crate) fn for_commands() -> impl Iterator<Item = (OsString, OsString)> {
    static PASSED_ON: LazyLock<Vec<(OsString, OsString)>> = LazyLock::new(|| {
        std::env::vars_os()
            .filter(|(name, _)| !name.as_encoded_bytes().starts_with(OWN_PREFIX.as_bytes()))
            .collect()
    });
    PASSED_ON.iter().cloned()
}
