//! The only wrapped server of a process, and its approved tools.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use toolbox::{Namespace, NamespaceError};

use super::listener::Allowed;
use super::pin::floating;
use super::pin_file::{Pin, PinError, PinFile};
use super::process::Launch;
use super::resolve;
use super::tools::{Approved, ToolList, digest};
use super::unpinned::Unpinned;
use super::upstream::Upstream;

/// Lengths of a variable's value that can be replaced in the output.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 8..=4096;

/// Settings of a wrapped server.
pub struct WrapOptions {
    /// Program and its arguments.
    pub command: Vec<String>,
    /// Session whose sandbox the server runs in. One with variables runs in a sandbox beside it.
    pub session: String,
    /// Environment variables of the server. They are secret.
    pub env: BTreeMap<String, String>,
    /// Whether each start may download the newest version of the server's package.
    pub unpinned: bool,
    /// Digest of the tool list that the user approves now.
    pub tools_hash: Option<String>,
    /// File that stores versions and approved tools. Without it, each process decides on its own.
    pub pins: Option<PathBuf>,
    /// Whether the server may send questions to the host's user.
    pub allow_elicitation: bool,
    /// Whether the server may use the host's model.
    pub allow_sampling: bool,
}

impl fmt::Debug for WrapOptions {
    /// Without the environment and the command, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, pins, .. } = self;
        f.debug_struct("WrapOptions").field("session", session).field("pins", pins).finish_non_exhaustive()
    }
}

/// Why a server cannot be wrapped.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// There is no program.
    #[error("no command given")]
    NoCommand,
    /// The session cannot be used.
    #[error("the session {0}")]
    Session(#[from] NamespaceError),
    /// The sandbox cannot be created.
    #[error("the sandbox cannot be created")]
    Sandbox(#[from] sandbox_client::Error),
    /// The version of the package is unknown.
    #[error("{0} with --unpinned")]
    Unpinned(#[from] Unpinned),
    /// The file with the pins cannot be read.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// The host did not complete the handshake.
    #[error("the host did not open an MCP connection")]
    Handshake(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server's task has failed.
    #[error("the server failed")]
    Failed(#[source] tokio::task::JoinError),
}

/// The only server of a process.
#[derive(Debug)]
pub(super) struct Single {
    upstream: Arc<Upstream>,
    client: Client,
    launch: Launch,
    command: Vec<String>,
    pins: Option<PinFile>,
    pin: Mutex<Pin>,
}

impl Single {
    pub(super) fn upstream(&self) -> Arc<Upstream> {
        Arc::clone(&self.upstream)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn launch(&self) -> &Launch {
        &self.launch
    }

    pub(super) fn approved(&self) -> Option<Approved> {
        let pin = self.pin.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Approved { hash: pin.tools_hash.clone()?, tools: pin.tools.clone() })
    }

    /// Stores approved tools.
    pub(super) fn approve(&self, tools: &ToolList) -> Result<(), String> {
        let mut known = self.pin.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pin = known.clone();
        (pin.tools_hash, pin.tools) = (Some(tools.hash.clone()), tools.digests.clone());
        // First, because the next process must approve tools that are not stored.
        if let Some(file) = &self.pins {
            file.put(&self.command, &pin).map_err(|error| error.to_string())?;
        }
        *known = pin;
        Ok(())
    }
}

/// Prepares everything that a server needs before its first call.
pub(super) async fn prepare(client: Client, options: WrapOptions) -> Result<Single, WrapError> {
    let (cmd, args) = options.command.split_first().ok_or(WrapError::NoCommand)?;
    let pins = options.pins.map(PinFile::new);
    let mut pin = match &pins {
        Some(file) => file.get(&options.command)?,
        None => Pin::default(),
    };
    let sandbox = sandbox_of(&options.session, &options.command, &options.env)?;
    let sandbox = client.create_or_reconnect(&sandbox).await?.sandbox_id;
    let mut args = args.to_vec();
    let found = if options.unpinned { None } else { floating(cmd, &args)? };
    if let Some(package) = found {
        let version = match pin.version.clone() {
            Some(version) => version,
            None => resolve::current(&client, &sandbox, &package).await?,
        };
        args = package.with_version(&args, &version);
        pin.version = Some(version);
    }
    if let Some(hash) = options.tools_hash {
        (pin.tools_hash, pin.tools) = (Some(hash), BTreeMap::new());
    }
    let launch = Launch {
        sandbox,
        cmd: cmd.clone(),
        args,
        cwd: None,
        env: options.env,
        allowed: Allowed { elicitation: options.allow_elicitation, sampling: options.allow_sampling },
        registered: None,
    };
    let (upstream, command) = (Arc::default(), options.command);
    Ok(Single { upstream, client, launch, command, pins, pin: Mutex::new(pin) })
}

/// The sandbox of a session, or the one beside it for this server with variables.
fn sandbox_of(
    session: &str,
    command: &[String],
    env: &BTreeMap<String, String>,
) -> Result<CreateSandbox, NamespaceError> {
    if env.is_empty() {
        return Namespace::new("stdio")?.sandbox_of(session);
    }
    let secret = env.iter().filter(|(_, value)| SECRET_BYTES.contains(&value.len()));
    let secret = secret.map(|(name, _)| name.clone()).collect();
    let values = env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    // The tools of no host reach this namespace.
    let server = &digest(command.join("\0").as_bytes())[..16];
    let sandbox = Namespace::new("stdio-secrets")?.sandbox_of(&format!("{session}/{server}"))?;
    Ok(CreateSandbox { secret_env: Some(secret), env: Some(values), ports: None, ..sandbox })
}
