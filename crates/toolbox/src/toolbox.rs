//! Calls of tools.

use std::sync::Arc;

use futures::future::BoxFuture;
use sandbox_api::{SandboxId, WORKSPACE};
use sandbox_client::Client;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::approval::{Approval, Resumed};
use crate::approval_log::ApprovalLog;
use crate::cursors::Cursors;
use crate::error::{is_gone, shortened};
use crate::images::Images;
use crate::sandboxes::Sandboxes;
use crate::{Definition, Error, HostRoot, Namespace, Profile, Reply, Tool, input, output};

/// Executes calls of one client. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Toolbox {
    pub(crate) client: Client,
    pub(crate) namespace: Namespace,
    pub(crate) memory: Memory,
    pub(crate) root: Option<HostRoot>,
    profile: Profile,
}

/// State that calls keep for later calls. Losing it costs requests, and output that is read twice.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    pub(crate) sandboxes: Arc<Sandboxes>,
    pub(crate) cursors: Arc<Cursors>,
    pub(crate) images: Images,
    pub(crate) approval_log: Arc<ApprovalLog>,
}

/// Circumstances of a call.
pub struct Call<'a> {
    /// The host's name for its conversation, if the host has sent one.
    pub session: Option<&'a str>,
    /// Gets a command's output while it runs.
    pub progress: &'a dyn Progress,
    /// Ends the call. A command that it waits for ends too.
    pub cancel: CancellationToken,
    /// How the user is asked about a host that a command was denied.
    pub approval: Approval<'a>,
    /// The earlier call that this one repeats, with the user's answers. The call starts nothing then.
    pub resumed: Option<Resumed>,
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
    /// Name as called. A long one is shortened.
    pub name: String,
}

/// The arguments of a call, without the sandbox.
pub(crate) struct Arguments {
    tool: &'static str,
    fields: Map<String, Value>,
}

impl Toolbox {
    /// Creates the tools of the client whose sandboxes are in `namespace`.
    pub fn new(client: Client, namespace: Namespace, memory: Memory) -> Self {
        Self { client, namespace, memory, root: None, profile: Profile::Default }
    }

    /// Offers the tools of another profile.
    pub fn with_profile(self, profile: Profile) -> Self {
        Self { profile, ..self }
    }

    /// Offers the tools that copy files from and to a directory of the host too. Only for a host on the same machine, whose
    /// user has chosen the directory.
    pub fn with_root(self, root: HostRoot) -> Self {
        Self { root: Some(root), ..self }
    }

    /// Describes the tools. The description of `bash` names programs of the image, once a sandbox was opened.
    pub fn definitions(&self) -> Vec<Definition> {
        let mut definitions = self.profile.definitions();
        if self.profile == Profile::Default && self.root.is_some() {
            definitions.extend(Tool::WITH_ROOT.map(Tool::definition));
        }
        if self.profile == Profile::Default
            && let Some(bash) = definitions.iter_mut().find(|tool| tool.name == Tool::Bash.name())
        {
            bash.description.push_str(&self.memory.sandboxes.programs.sentence());
        }
        definitions
    }

    /// The sandboxes that calls can be for.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Executes a call.
    ///
    /// The future is boxed so that the tools are compiled once. The compiler generates the code of an async function in
    /// each crate that polls it, together with all that it awaits.
    pub fn call<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a Call<'_>,
    ) -> BoxFuture<'a, Result<Reply, UnknownTool>> {
        Box::pin(self.call_offered(name, arguments, call))
    }

    async fn call_offered(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        call: &Call<'_>,
    ) -> Result<Reply, UnknownTool> {
        let result = match self.profile {
            Profile::Default => match Tool::of_name(name).filter(|tool| self.offers(*tool)) {
                Some(tool) => Some(self.execute(tool, arguments, call).await),
                None => None,
            },
            Profile::Boxsh => self.boxsh(name, arguments, call).await,
            Profile::SqlFs => self.sql_fs(name, arguments, call).await,
            Profile::Chat => self.chat(name, arguments, call).await,
        };
        let result = result.ok_or_else(|| UnknownTool { name: shortened(name) })?;
        Ok(result.unwrap_or_else(Reply::from))
    }

    fn offers(&self, tool: Tool) -> bool {
        self.root.is_some() || !Tool::WITH_ROOT.contains(&tool)
    }

    async fn execute(
        &self,
        tool: Tool,
        mut arguments: Map<String, Value>,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let handle = match if tool.is_in_sandbox() { arguments.remove("sandbox") } else { None } {
            None | Some(Value::Null) => None,
            Some(Value::String(handle)) => Some(handle),
            Some(_) => return Err(Error::Argument { field: "sandbox", problem: "must be a string".into() }),
        };
        let arguments = Arguments::new(tool.name(), arguments);
        match tool {
            Tool::SandboxOpen => return self.open(arguments.parse()?, call).await,
            Tool::RepositoryBash => return self.repository_bash(arguments.parse()?, call).await,
            _ => {}
        }
        let act = |sandbox: SandboxId| {
            let arguments = &arguments;
            async move { self.act(tool, &sandbox, arguments, call).await }
        };
        self.in_sandbox(handle.as_deref(), call, act).await
    }

    /// Acts in the sandbox of a handle, or else of the host's conversation. If that one was deleted after its last use,
    /// acts in a new one.
    pub(crate) async fn in_sandbox<T, F>(
        &self,
        handle: Option<&str>,
        call: &Call<'_>,
        act: impl Fn(SandboxId) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (sandboxes, namespace) = (&self.memory.sandboxes, &self.namespace);
        let sandbox = match (handle, call.session) {
            (Some(handle), _) => sandboxes.of_handle(&self.client, namespace, handle).await?,
            (None, Some(session)) => sandboxes.of_session(&self.client, namespace, session).await?,
            (None, None) => return Err(self.profile.no_sandbox()),
        };
        match act(sandbox.clone()).await {
            // Nothing was started, because the sandbox was deleted after its last use. Calls that had started something
            // return another error: `Error::after_start`.
            Err(Error::Client { source }) if is_gone(&source) => {
                sandboxes.forget(&sandbox);
                match (handle, call.session) {
                    (None, Some(session)) => {
                        act(sandboxes.reopen(&self.client, namespace, session).await?.sandbox).await
                    }
                    (handle, _) => {
                        Err(Error::UnknownSandbox { handle: handle.unwrap_or_default().to_owned() })
                    }
                }
            }
            done => done,
        }
    }

    async fn act(
        &self,
        tool: Tool,
        sandbox: &SandboxId,
        arguments: &Arguments,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        match tool {
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
            Tool::DownloadLink => self.download_link(sandbox, arguments.parse()?).await,
            Tool::Skills => self.skills(sandbox, arguments.parse()?).await,
            Tool::SandboxInfo => self.info(sandbox, arguments.parse()?).await,
            Tool::Upload => self.upload(sandbox, arguments.parse()?, call).await,
            Tool::Download => self.download(sandbox, arguments.parse()?, call).await,
            Tool::SandboxOpen | Tool::RepositoryBash => Err(Error::NoSandbox),
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

    pub(crate) fn approval_log(&self) -> &ApprovalLog {
        &self.memory.approval_log
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

    pub(crate) async fn preview_url(
        &self,
        sandbox: &SandboxId,
        input: input::PreviewUrl,
    ) -> Result<Reply, Error> {
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
    pub(crate) fn new(tool: &'static str, mut fields: Map<String, Value>) -> Self {
        // An absent field and null mean the same.
        fields.retain(|_, value| !value.is_null());
        Self { tool, fields }
    }

    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_value(Value::Object(self.fields.clone()))
            .map_err(|source| Error::Arguments { tool: self.tool, source })
    }
}
