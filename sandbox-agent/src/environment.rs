//! The agent's settings, and the environment of commands.
//!
//! The container's environment holds both. Variables that begin with `SANDBOX_AGENT_` are the agent's and never reach
//! a command. If the agent's proxy runs, commands get variables that point to it. The agent wipes its variables from
//! the kernel's copy, because not every kernel protects it: Linux hides it for a process that is not dumpable, but
//! gVisor shows every process's environment to all.

use std::ffi::{CStr, OsString};
use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};

const OWN_PREFIX: &str = "SANDBOX_AGENT_";

/// The abstract socket name (unix(7)) for `sandbox-agent dial`. It belongs to the container's network namespace and
/// is bound before the first command runs.
pub(crate) const DIAL_NAME: &[u8] = b"sandbox-agent";

/// Settings that the agent was started with.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Proves to sandboxd that this is the agent.
    pub(crate) secret: String,
    /// The socket to dial. Without it the agent waits for `sandbox-agent dial`.
    pub(crate) socket: Option<PathBuf>,
    pub(crate) workspace: PathBuf,
    /// Whether the sandbox has outbound network access through sandboxd. If not, it has its own network.
    pub(crate) has_proxy: bool,
    /// Whether a shell waits for the next command.
    pub(crate) waiting_shells: bool,
}

impl Settings {
    /// Reads the settings. Returns the name of a missing variable as the error. Must come before [`wipe_own`].
    pub(crate) fn from_env() -> Result<Self, &'static str> {
        let required = |name: &'static str| std::env::var(name).map_err(|_| name);
        Ok(Self {
            secret: required("SANDBOX_AGENT_SECRET")?,
            socket: std::env::var_os("SANDBOX_AGENT_SOCKET").map(PathBuf::from),
            workspace: required("SANDBOX_AGENT_WORKSPACE")?.into(),
            has_proxy: is_on("SANDBOX_AGENT_PROXY"),
            waiting_shells: is_on("SANDBOX_AGENT_WAITING_SHELLS"),
        })
    }
}

fn is_on(name: &str) -> bool {
    std::env::var_os(name).is_none_or(|value| value != "off")
}

/// Wipes the agent's own variables from /proc/1/environ. Must run before the second thread starts. Values that were
/// read before are copies and stay valid.
#[expect(unsafe_code, reason = "the initial environment can only be reached through C's `environ`")]
pub(crate) fn wipe_own() {
    // SAFETY: this is the only thread, so nothing reads or changes the environment meanwhile. `environ` is an array
    // of NUL-terminated strings that ends with a null pointer. Each written byte lies before its string's NUL, in
    // memory of this process that is writable (environ(7)).
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

/// Variables that point programs to the proxy. npm, pip, git, cargo, Go and curl read these names. Node also needs
/// `NODE_USE_ENV_PROXY`. The last two do not name SOCKS5, although the proxy supports it: without an extra package,
/// Python's httpx fails on that scheme for every URL.
const PROXY_NAMES: [&str; 6] =
    ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
const NO_PROXY_NAMES: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// Hosts inside the sandbox never go through the proxy.
const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// Set before the first command, or never.
static PRESETS: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();

/// Sets the variables that point commands to the proxy on `port`.
pub(crate) fn preset_proxy(port: u16) {
    let of = |names: &'static [&str], value: String| names.iter().map(move |name| (*name, value.clone()));
    let presets = of(&PROXY_NAMES, format!("http://127.0.0.1:{port}"))
        .chain(of(&NO_PROXY_NAMES, NO_PROXY.into()))
        .chain(of(&["NODE_USE_ENV_PROXY"], "1".into()));
    PRESETS.get_or_init(|| presets.map(|(name, value)| (name.into(), value.into())).collect());
}

/// Returns the environment of every command. Of two entries with the same name the later one wins.
pub(crate) fn for_commands() -> impl Iterator<Item = (OsString, OsString)> {
    static PASSED_ON: LazyLock<Vec<(OsString, OsString)>> = LazyLock::new(|| {
        std::env::vars_os()
            .filter(|(name, _)| !name.as_encoded_bytes().starts_with(OWN_PREFIX.as_bytes()))
            .collect()
    });
    PRESETS.get().into_iter().flatten().chain(PASSED_ON.iter()).cloned()
}
