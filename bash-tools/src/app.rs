//! An app's tools, built from its configuration.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;

use crate::config::{self, Environment, Fault, Location};
use crate::gates::{Decision, Reason};
use crate::provider::{
    self, BadCredentials, Docker, DockerOptions, Provider, VERCEL_API, Vercel, VercelOptions,
};
use crate::seed::{GitCredentials, GitSeed, Seed, UploadSeed};
use crate::session::{ChatKey, SessionLimits, Sessions};
use crate::tools::{
    CommandHooks, Definition, DescriptionContext, FLUSH_PAUSE, OutputLimits, Python, ToolLimits, Toolkit,
    definitions,
};
use crate::workspace::Workspace;

/// The tools of an app, for all its chats. Cheap to clone. All clones share the same sessions.
#[derive(Debug, Clone)]
pub struct App {
    sessions: Sessions,
    limits: ToolLimits,
    context: DescriptionContext,
    definitions: Arc<[Definition]>,
    hooks: Option<Arc<dyn CommandHooks>>,
    python: Option<Python>,
}

/// Why the tools could not be set up. Its `Debug` form is its message, because a `main` that returns the error
/// prints its `Debug` form.
#[derive(thiserror::Error)]
pub enum SetupError {
    /// No sandbox provider is configured.
    #[error("no sandbox provider: call AppBuilder::sandboxd or AppBuilder::vercel")]
    NoProvider,
    /// The token for sandboxd is missing. sandboxd requires one.
    #[error(
        "no token for sandboxd: set {variable} (or name another variable in app.bash_tools.docker.admin_token_env), or give the \
         token to AppBuilder::sandboxd; sandboxd keeps it in its state directory, /var/lib/sandboxd/token for root"
    )]
    MissingToken {
        /// Environment variable for the token.
        variable: String,
    },
    /// The token for access over a network is too short.
    #[error("the admin token for access over a network must have at least {min_chars} characters")]
    WeakToken {
        /// Minimum number of characters.
        min_chars: usize,
    },
    /// The settings are invalid.
    #[error("the tools' settings are invalid:{}", faults.iter().map(|fault| format!("\n  {fault}")).collect::<String>())]
    Settings {
        /// All errors.
        faults: Vec<Fault>,
    },
    /// The gates could not be set up.
    #[error("the gates could not be set up")]
    Gates(#[source] crate::gates::Error),
    /// The client for sandboxd could not be created.
    #[error("the client for sandboxd could not be created")]
    Client(#[source] sandbox_client::Error),
    /// Credentials for Vercel are missing or invalid.
    #[error(transparent)]
    Credentials(#[from] BadCredentials),
    /// The provider could not be set up.
    #[error("the sandbox provider could not be set up")]
    Provider(#[source] provider::Error),
}

impl SetupError {
    /// Errors in settings that are not from a file and so have no line.
    pub(crate) fn settings(mut faults: Vec<Fault>) -> Self {
        for fault in &mut faults {
            if let Location::Key { line, .. } = &mut fault.at {
                *line = None;
            }
        }
        Self::Settings { faults }
    }
}

impl fmt::Debug for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        match std::error::Error::source(self) {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl App {
    /// Creates an app from checked settings and the environment read with them. Must be called within a tokio
    /// runtime. Sends nothing yet, and creates no sandbox before a chat needs one.
    pub fn new(tools: &config::BashTools, environment: &Environment) -> Result<Self, SetupError> {
        let provider = match &tools.provider {
            config::Provider::Docker(docker) => sandboxd(tools, docker, environment)?,
            config::Provider::Vercel => vercel(tools, environment)?,
        };
        let limits = SessionLimits { max_open: tools.max_concurrent_sandboxes, idle_ttl: tools.idle_ttl };
        let sessions = Sessions::new(provider, seed(tools, environment), limits);
        Ok(Self::with(sessions, tools))
    }

    fn with(sessions: Sessions, tools: &config::BashTools) -> Self {
        let output = OutputLimits {
            max_stdout_chars: tools.max_stdout_chars,
            max_stderr_chars: tools.max_stderr_chars,
        };
        let ports = tools.sandbox.ports.clone();
        let context = DescriptionContext {
            ports: ports.clone(),
            programs: programs(tools).iter().map(|program| (*program).to_owned()).collect(),
            timeout_s: tools.command_timeout.as_secs(),
            output,
            python: None,
        };
        let limits = ToolLimits { timeout: tools.command_timeout, output, ports, pause: FLUSH_PAUSE };
        let definitions = definitions(&context).into();
        Self { sessions, limits, context, definitions, hooks: None, python: None }
    }

    /// Returns the tools of a chat if the gates are open for the request. Cheap: nothing is opened before a tool is
    /// called.
    ///
    /// # Errors
    /// The gate that is closed.
    pub fn toolkit(&self, gates: Decision, key: ChatKey) -> Result<Toolkit, Reason> {
        match gates {
            Decision::Enabled => {
                let tools = Toolkit::new(self.sessions.clone(), key, self.limits.clone());
                let tools = match &self.hooks {
                    Some(hooks) => tools.with_hooks(Arc::clone(hooks)),
                    None => tools,
                };
                Ok(match &self.python {
                    Some(python) => tools.with_python(python.clone()),
                    None => tools,
                })
            }
            Decision::Disabled(reason) => Err(reason),
        }
    }

    /// Returns the user's view of a chat's sandbox. It requires open gates, as the tools do.
    ///
    /// # Errors
    /// The gate that is closed.
    pub fn workspace(&self, gates: Decision, key: ChatKey) -> Result<Workspace, Reason> {
        Ok(Workspace::new(self.toolkit(gates, key)?))
    }

    /// Sets the minimum pause between two updates of a command, instead of [`FLUSH_PAUSE`].
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.limits.pause = pause;
        self
    }

    /// Sets the hooks around the commands of the model, for all chats.
    pub fn with_hooks(mut self, hooks: Arc<dyn CommandHooks>) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// Adds the tool `python` for all chats, and its definition. Without an effect if the provider has no interpreters, which
    /// is the case for Vercel.
    pub fn with_python(mut self, python: Python) -> Self {
        if self.sessions.provider().interpreters().is_some() {
            self.context.python = Some(python.callables());
            self.definitions = definitions(&self.context).into();
            self.python = Some(python);
        }
        self
    }

    /// Returns the tool definitions for a model.
    pub fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    /// Returns the chats' sessions: to open a sandbox in advance, to see its state, and to delete it with its chat.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }
}

fn sandboxd(
    tools: &config::BashTools,
    docker: &config::DockerSettings,
    environment: &Environment,
) -> Result<Arc<dyn Provider>, SetupError> {
    let Some(token) = &environment.orchestrator_token else {
        return Err(SetupError::MissingToken { variable: docker.admin_token_env.clone() });
    };
    let client = sandbox_client::Client::new(docker.orchestrator_url.as_str(), token.expose_secret());
    let options = DockerOptions {
        runtime: tools.sandbox.runtime.clone(),
        idle_ttl: tools.idle_ttl,
        vcpus: tools.sandbox.vcpus,
        memory_mb: docker.memory_mb,
        network: docker.network.clone(),
        ports: tools.sandbox.ports.clone(),
        checkpoints: docker.checkpoints,
    };
    Ok(Arc::new(Docker::new(client.map_err(SetupError::Client)?, options)))
}

fn vercel(tools: &config::BashTools, environment: &Environment) -> Result<Arc<dyn Provider>, SetupError> {
    let credentials = environment.vercel.clone()?;
    let options = VercelOptions {
        runtime: tools.sandbox.runtime.clone(),
        vcpus: tools.sandbox.vcpus,
        timeout: tools.sandbox.timeout,
        ports: tools.sandbox.ports.clone(),
        persistent: true,
        // The seed clones the repository. It also supports credentials and limits.
        source: None,
    };
    Ok(Arc::new(Vercel::new(VERCEL_API, credentials, options).map_err(SetupError::Provider)?))
}

fn seed(tools: &config::BashTools, environment: &Environment) -> Option<Seed> {
    match &tools.seed {
        config::Seed::None => None,
        config::Seed::Git(git) => Some(Seed::Git(GitSeed {
            url: git.url.as_str().to_owned(),
            revision: git.revision.clone(),
            credentials: environment.git_token.clone().map(GitCredentials::token),
            // The configuration already rejects such a URL unless it is allowed.
            allow_http: git.url.scheme() == "http",
            timeout: tools.sandbox.timeout,
            max_bytes: git.max_bytes,
        })),
        config::Seed::Upload(upload) => Some(Seed::Upload(UploadSeed {
            root: upload.root.clone(),
            include: upload.include.clone(),
            max_files: UploadSeed::MAX_FILES,
            max_bytes: upload.max_bytes,
        })),
    }
}

/// Notable programs of the images, so that no request has to inspect one.
fn programs(tools: &config::BashTools) -> &'static [&'static str] {
    match tools.provider {
        config::Provider::Docker(_) => &[
            "node", "npm", "pnpm", "python3", "pip", "uv", "git", "curl", "wget", "jq", "yq", "rg",
            "sqlite3", "make", "gcc", "zip", "unzip", "tar", "xxd", "column", "bc", "tree", "vim",
        ],
        config::Provider::Vercel => &["git", "curl", "tar", "grep", "sed", "awk"],
    }
}
