//! The agent's own environment: its settings, and what it passes on to commands.
//!
//! The container's environment carries both. Names that begin with `SANDBOX_AGENT_` are the agent's and
//! never reach a command. Where the agent's proxy is there, commands are told of it. The kernel's copy is wiped, because a kernel need not close it: Linux does for an
//! agent that is not dumpable, gVisor shows every process's environment to all.

use std::ffi::{CStr, OsString};
use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};

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
    /// Whether there is a way out through sandboxd. Without it the sandbox has a network of its own.
    pub(crate) has_proxy: bool,
}

impl Settings {
    /// Reads the settings; names the variable that is missing. Must come before [`wipe_own`].
    pub(crate) fn from_env() -> Result<Self, &'static str> {
        let required = |name: &'static str| std::env::var(name).map_err(|_| name);
        Ok(Self {
            secret: required("SANDBOX_AGENT_SECRET")?,
            socket: std::env::var_os("SANDBOX_AGENT_SOCKET").map(PathBuf::from),
            workspace: required("SANDBOX_AGENT_WORKSPACE")?.into(),
            has_proxy: std::env::var_os("SANDBOX_AGENT_PROXY").is_none_or(|proxy| proxy != "off"),
        })
    }
}

/// Wipes the agent's own variables where the kernel shows them, in /proc/1/environ. Must come before there
/// is a second thread; what was read of them before is a copy and stays.
#[expect(unsafe_code, reason = "the first environment is memory that only C's `environ` leads to")]
pub(crate) fn wipe_own() {
    // SAFETY: this is the only thread, so nobody reads or changes the environment meanwhile. `environ` is an
    // array of NUL-terminated strings that ends with a null pointer, and each byte that is written lies before
    // its string's NUL, in memory of this process that was made to be written (environ(7)).
    unsafe {
        let mut next = libc::environ.cast_const();
        while !next.is_null() && !(*next).is_null() {
            let entry = CStr::from_ptr(*next).to_bytes();
            if entry.starts_with(OWN_PREFIX.as_bytes()) {
                let length = entry.len();
                std::ptr::write_bytes(*next, 0, length);
            }
            next = next.add(1);
        }
    }
}

/// What tells programs of the proxy, and Node, which has to be told to look. npm, pip, git, cargo, Go and curl look for
/// these names. The last two do not name SOCKS5, though it is there: Python's httpx fails on that scheme, for every URL,
/// unless it was installed with more.
const PROXY_NAMES: [&str; 6] =
    ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
const NO_PROXY_NAMES: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// What is in the sandbox itself is never asked of the proxy.
const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// Filled before the first command, or never.
static PRESETS: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();

/// Tells commands of the proxy, which listens on `port`.
pub(crate) fn preset_proxy(port: u16) {
    let of = |names: &'static [&str], value: String| names.iter().map(move |name| (*name, value.clone()));
    let presets = of(&PROXY_NAMES, format!("http://127.0.0.1:{port}"))
        .chain(of(&NO_PROXY_NAMES, NO_PROXY.into()))
        .chain(of(&["NODE_USE_ENV_PROXY"], "1".into()));
    PRESETS.get_or_init(|| presets.map(|(name, value)| (name.into(), value.into())).collect());
}

/// What every command finds in its environment. Of two entries with one name the later counts.
pub(crate) fn for_commands() -> impl Iterator<Item = (OsString, OsString)> {
    static PASSED_ON: LazyLock<Vec<(OsString, OsString)>> = LazyLock::new(|| {
        std::env::vars_os()
            .filter(|(name, _)| !name.as_encoded_bytes().starts_with(OWN_PREFIX.as_bytes()))
            .collect()
    });
    PRESETS.get().into_iter().flatten().chain(PASSED_ON.iter()).cloned()
}
