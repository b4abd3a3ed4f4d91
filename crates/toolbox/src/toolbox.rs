//! Calls of tools.

use std::sync::Arc;

use futures::future::BoxFuture;
use sandbox_api::{SandboxId, WORKSPACE};
use sandbox_client::Client;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::cursors::Cursors;
use crate::images::Images;
use crate::sandboxes::{Sandboxes, is_gone};
use crate::{Error, Namespace, Reply, Tool, input, output};

/// Executes calls of one client. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Toolbox {
    pub(crate) client: Client,
    namespace: Namespace,
    memory: Memory,
}

/// What calls remember for later ones. Losing it costs requests, and output that is read twice.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    pub(crate) sandboxes: Arc<Sandboxes>,
    pub(crate) cursors: Arc<Cursors>,
    pub(crate) images: Images,
}

/// Circumstances of a call.
pub struct Call<'a> {
    /// The host's name for its conversation, if the host has sent one.
    pub session: Option<&'a str>,
    /// Gets a command's output while it runs.
    pub progress: &'a dyn Progress,
    /// Ends the call. A command that it waits for ends too.
    pub cancel: CancellationToken,
}

/// Reports what a command writes, while the call waits for its end.
pub trait Progress: Send + Sync {
    /// Time between two reports, or `None` if none is wanted.
    fn pause(&self) -> Option<std::time::Duration>;

    /// Reports the last line that the command has written, or nothing if there is no new one.
    fn report<'a>(&'a self, line: &'a str) -> BoxFuture<'a, ()>;
}

/// There is no tool with the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{name}`")]
pub struct UnknownTool {
    /// Name as called.
    pub name: String,
}

/// The arguments of a call, without the sandbox.
pub(crate) struct Arguments {
    tool: Tool,
    rest: Map<String, Value>,
}

impl Toolbox {
    /// Creates the tools of the client whose sandboxes are in `namespace`.
    pub fn new(client: Client, namespace: Namespace, memory: Memory) -> Self {
        Self { client, namespace, memory }
    }

    /// Executes a call.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        call: &Call<'_>,
    ) -> Result<Reply, UnknownTool> {
        let tool = Tool::of_name(name).ok_or_else(|| UnknownTool { name: name.to_owned() })?;
        Ok(self.execute(tool, arguments, call).await.unwrap_or_else(Reply::from))
    }

    async fn execute(
        &self,
        tool: Tool,
        mut rest: Map<String, Value>,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let handle = match rest.remove("sandbox") {
            None | Some(Value::Null) => None,
            Some(Value::String(handle)) => Some(handle),
            Some(_) => return Err(Error::Argument { field: "sandbox", problem: "must be a string".into() }),
        };
        // An absent field and null mean the same.
        rest.retain(|_, value| !value.is_null());
        let arguments = Arguments { tool, rest };
        if tool == Tool::SandboxOpen {
            return self.open(arguments.parse()?, call).await;
        }
        let (sandboxes, namespace) = (&self.memory.sandboxes, &self.namespace);
        let sandbox = match (&handle, call.session) {
            (Some(handle), _) => sandboxes.of_handle(&self.client, namespace, handle).await?,
            (None, Some(session)) => sandboxes.of_session(&self.client, namespace, session).await?,
            (None, None) => return Err(Error::NoSandbox),
        };
        match self.act(&sandbox, &arguments, call).await {
            // Nothing was executed, because the sandbox was deleted after its last use.
            Err(Error::Client { source }) if is_gone(&source) => {
                sandboxes.forget(&sandbox);
                match (handle, call.session) {
                    (None, Some(session)) => {
                        let sandbox = sandboxes.reopen(&self.client, namespace, session).await?.sandbox;
                        self.act(&sandbox, &arguments, call).await
                    }
                    (handle, _) => Err(Error::UnknownSandbox { handle: handle.unwrap_or_default() }),
                }
            }
            done => done,
        }
    }

    async fn act(&self, sandbox: &SandboxId, arguments: &Arguments, call: &Call<'_>) -> Result<Reply, Error> {
        match arguments.tool {
            Tool::Bash => self.bash(sandbox, arguments.parse()?, call).await,
            Tool::BashOutput => self.bash_output(sandbox, arguments.parse()?, call).await,
            Tool::BashKill => self.bash_kill(sandbox, arguments.parse()?).await,
            Tool::BashList => self.bash_list(sandbox, arguments.parse()?).await,
            Tool::Read => self.read(sandbox, arguments.parse()?).await,
            Tool::Write => self.write(sandbox, arguments.parse()?).await,
            Tool::Edit => self.edit(sandbox, arguments.parse()?).await,
            Tool::Search => self.search(sandbox, arguments.parse()?).await,
            Tool::TerminalOpen => self.terminal_open(sandbox, arguments.parse()?, call).await,
            Tool::TerminalSend => self.terminal_send(sandbox, arguments.parse()?, call).await,
            Tool::TerminalRead => self.terminal_read(sandbox, arguments.parse()?, call).await,
            Tool::TerminalClose => self.terminal_close(sandbox, arguments.parse()?).await,
            Tool::TerminalList => self.terminal_list(sandbox, arguments.parse()?).await,
            Tool::PreviewUrl => self.preview_url(sandbox, arguments.parse()?).await,
            Tool::Skills => self.skills(sandbox, arguments.parse()?).await,
            Tool::SandboxInfo => self.info(sandbox, arguments.parse()?).await,
            Tool::SandboxOpen => Err(Error::NoSandbox),
        }
    }

    pub(crate) fn key_of(&self, session: &str) -> Result<String, Error> {
        self.namespace.key_of(session)
    }

    pub(crate) async fn of_handle(&self, handle: &str) -> Result<SandboxId, Error> {
        self.memory.sandboxes.of_handle(&self.client, &self.namespace, handle).await
    }

    pub(crate) fn forget(&self, sandbox: &SandboxId) {
        self.memory.sandboxes.forget(sandbox);
    }

    pub(crate) fn images(&self) -> &Images {
        &self.memory.images
    }

    pub(crate) fn cursors(&self) -> &Cursors {
        &self.memory.cursors
    }

    async fn open(&self, input: input::SandboxOpen, call: &Call<'_>) -> Result<Reply, Error> {
        let sandboxes = &self.memory.sandboxes;
        let opened = match (input.name, call.session) {
            (None, Some(session)) => sandboxes.reopen(&self.client, &self.namespace, session).await?,
            (name, _) => sandboxes.open_named(&self.client, &self.namespace, name.as_deref()).await?,
        };
        let state = if opened.created { "new, empty" } else { "with its earlier files" };
        let text = format!("Sandbox {} is open ({state}). Its workspace is {WORKSPACE}.", opened.sandbox);
        Ok(Reply::new(text, &output::Opened { sandbox: opened.sandbox.to_string(), created: opened.created }))
    }

    async fn preview_url(&self, sandbox: &SandboxId, input: input::PreviewUrl) -> Result<Reply, Error> {
        let found = self.client.find_port(sandbox, input.port).await?;
        match found.url {
            Some(url) => Ok(Reply::new(url.clone(), &output::Preview { url })),
            None => {
                let ports = self.client.get(sandbox).await?.ports;
                let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                let problem = format!("must be one of the sandbox's ports: {}", ports.join(", "));
                Err(Error::Argument { field: "port", problem })
            }
        }
    }

    async fn info(&self, sandbox: &SandboxId, _: input::SandboxInfo) -> Result<Reply, Error> {
        let found = self.client.get(sandbox).await?;
        let state =
            serde_json::to_value(found.state).ok().and_then(|state| state.as_str().map(str::to_owned));
        let info = output::Info {
            sandbox: sandbox.to_string(),
            state: state.unwrap_or_default(),
            workspace: WORKSPACE.to_owned(),
            vcpus: found.resources.vcpus,
            memory_mb: found.resources.memory_mb,
            disk_mb: found.resources.disk_mb,
            disk_used_bytes: found.usage.and_then(|usage| usage.disk_bytes),
            network: found.network.mode.unwrap_or_else(|| "default".to_owned()),
            allowed_hosts: found.network.allow.unwrap_or_default(),
            ports: found.ports,
            running_commands: found.running_commands,
            expires_at: found.expires_at.map(|time| time.to_string()),
        };
        let text = serde_json::to_string_pretty(&info).unwrap_or_default();
        Ok(Reply::new(text, &info))
    }
}

impl Arguments {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_value(Value::Object(self.rest.clone()))
            .map_err(|source| Error::Arguments { tool: self.tool.name(), source })
    }
}
