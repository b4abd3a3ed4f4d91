//! The tools of [`chat`](crate::chat), executed over sandboxd's API.

use output_text::Keep;
use sandbox_api::SandboxId;
use sandbox_api::command::{EndReason, StartCommand};
use sandbox_client::WriteOptions;
use serde_json::{Map, Value};

use crate::bash::{DEFAULT_TIMEOUT, MAX_STDERR_CHARS, MAX_STDOUT_CHARS};
use crate::chat::{
    self, BashInput, DescriptionContext, FileContent, OutputLimits, Parts, ReadFileInput, SandboxUrlInput,
    TIMED_OUT, Tool, WriteFileInput, Written,
};
use crate::run::Stream;
use crate::sandboxes::PORTS;
use crate::toolbox::{Arguments, Call, Toolbox};
use crate::{Block, Definition, Error, Reply, input};

/// Limits of a command's output.
const OUTPUT: OutputLimits =
    OutputLimits { max_stdout_chars: MAX_STDOUT_CHARS, max_stderr_chars: MAX_STDERR_CHARS };

/// Describes the tools.
pub(super) fn definitions() -> Vec<Definition> {
    let context = DescriptionContext {
        ports: PORTS.to_vec(),
        programs: Vec::new(),
        timeout_s: DEFAULT_TIMEOUT.as_secs(),
        output: OUTPUT,
        python: None,
    };
    chat::definitions(&context).into_iter().map(|(_, definition)| definition).collect()
}

impl Toolbox {
    /// Executes a call. `None` if there is no such tool.
    pub(crate) async fn chat(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        call: &Call<'_>,
    ) -> Option<Result<Reply, Error>> {
        let tool = Tool::of_name(name).filter(|tool| *tool != Tool::Python)?;
        let arguments = Arguments::new(tool.name(), arguments);
        let act = |sandbox: SandboxId| {
            let arguments = &arguments;
            async move {
                match tool {
                    Tool::ReadFile => self.chat_read(&sandbox, arguments.parse()?).await,
                    Tool::WriteFile => self.chat_write(&sandbox, arguments.parse()?).await,
                    Tool::Bash => self.chat_bash(&sandbox, arguments.parse()?, call).await,
                    Tool::SandboxUrl => {
                        let SandboxUrlInput { port } = arguments.parse()?;
                        self.preview_url(&sandbox, input::PreviewUrl { port }).await
                    }
                    Tool::Python => unreachable!("the profile does not have it"),
                }
            }
        };
        Some(self.in_sandbox(None, call, act).await)
    }

    async fn chat_read(&self, sandbox: &SandboxId, input: ReadFileInput) -> Result<Reply, Error> {
        let ReadFileInput { path, offset, limit } = input;
        let reply = self.read(sandbox, input::Read { path: path.clone(), offset, limit }).await?;
        match reply.blocks.as_slice() {
            [Block::Text(content)] => Ok(Reply::json(&FileContent { content: content.clone() })),
            // An image.
            _ => {
                let bytes = self.client.stat_file(sandbox, &path).await?.size;
                Err(Error::NotText { path, bytes })
            }
        }
    }

    async fn chat_write(&self, sandbox: &SandboxId, input: WriteFileInput) -> Result<Reply, Error> {
        self.client.put_file(sandbox, &input.path, input.content, WriteOptions::default()).await?;
        Ok(Reply::json(&Written { success: true }))
    }

    async fn chat_bash(
        &self,
        sandbox: &SandboxId,
        input: BashInput,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let request = StartCommand {
            script: Some(input.command),
            timeout_ms: Some(DEFAULT_TIMEOUT.as_millis() as u64),
            ..StartCommand::default()
        };
        let mut parts = Parts::new(Keep::Tail, OUTPUT);
        let end = self
            .run_to_end(sandbox, &request, call, |stream, bytes| match stream {
                Stream::Stdout => parts.stdout.push(bytes),
                Stream::Stderr => parts.stderr.push(bytes),
            })
            .await?;
        let exit_code = if end.reason == EndReason::Timeout { TIMED_OUT } else { end.exit_code };
        let notice = chat::notice(end.reason, DEFAULT_TIMEOUT.as_millis());
        Ok(Reply::json(&parts.at_end(exit_code, notice.as_deref())))
    }
}
