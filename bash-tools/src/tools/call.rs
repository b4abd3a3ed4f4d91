//! Tool calls in the form that a model sends: a tool's name and JSON input.

use futures::future::Either;
use futures::stream::{self, Stream, StreamExt};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    BashInput, BashOutput, Error, FileContent, PythonInput, PythonOutput, PythonStatus, RUNNING,
    ReadFileInput, Result, SandboxUrl, SandboxUrlInput, Tool, Toolkit, WriteFileInput, Written,
};

/// A tool and its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// `readFile`.
    ReadFile(ReadFileInput),
    /// `writeFile`.
    WriteFile(WriteFileInput),
    /// `bash`.
    Bash(BashInput),
    /// `sandboxUrl`.
    SandboxUrl(SandboxUrlInput),
    /// `python`.
    Python(PythonInput),
}

/// Result of a tool. It serializes as the result itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// Result of `readFile`.
    File(FileContent),
    /// Result of `writeFile`.
    Written(Written),
    /// Result of `bash`.
    Bash(BashOutput),
    /// Result of `sandboxUrl`.
    Url(SandboxUrl),
    /// Result of `python`.
    Python(Box<PythonOutput>),
}

impl Call {
    /// Parses a tool's name and JSON input. [`Error::NoTool`] and [`Error::BadCall`] tell the model how to correct
    /// the call.
    pub fn of(name: &str, input: Value) -> Result<Self> {
        let Some(tool) = Tool::of_name(name) else { return Err(Error::NoTool { name: name.to_owned() }) };
        let bad = |error: serde_json::Error| Error::BadCall { tool: tool.name(), problem: error.to_string() };
        Ok(match tool {
            Tool::ReadFile => Self::ReadFile(serde_json::from_value(input).map_err(bad)?),
            Tool::WriteFile => Self::WriteFile(serde_json::from_value(input).map_err(bad)?),
            Tool::Bash => Self::Bash(serde_json::from_value(input).map_err(bad)?),
            Tool::SandboxUrl => Self::SandboxUrl(serde_json::from_value(input).map_err(bad)?),
            Tool::Python => Self::Python(serde_json::from_value(input).map_err(bad)?),
        })
    }

    /// Returns the tool.
    pub fn tool(&self) -> Tool {
        match self {
            Self::ReadFile(_) => Tool::ReadFile,
            Self::WriteFile(_) => Tool::WriteFile,
            Self::Bash(_) => Tool::Bash,
            Self::SandboxUrl(_) => Tool::SandboxUrl,
            Self::Python(_) => Tool::Python,
        }
    }
}

impl Answer {
    /// Whether another value follows that replaces this one.
    pub fn is_preliminary(&self) -> bool {
        match self {
            Self::Bash(output) => output.exit_code == RUNNING,
            Self::Python(output) => output.status == PythonStatus::Running,
            Self::File(_) | Self::Written(_) | Self::Url(_) => false,
        }
    }

    /// Returns what a model gets of the result: of `python`, images and HTML are only mentioned.
    pub fn for_model(self) -> Self {
        match self {
            Self::Python(output) => Self::Python(Box::new(output.for_model())),
            answer => answer,
        }
    }
}

impl Toolkit {
    /// Runs the call. All values but the last are [preliminary](Answer::is_preliminary), and an error is always the
    /// last. `cancel` ends a command; its last value reports that. Dropping the stream ends the operation.
    pub fn call(
        &self,
        call: Call,
        cancel: CancellationToken,
    ) -> impl Stream<Item = Result<Answer>> + Send + 'static {
        match call {
            Call::Bash(input) => {
                Either::Left(self.bash(input, cancel).map(|output| output.map(Answer::Bash)))
            }
            Call::Python(input) => Either::Right(Either::Left(
                self.python(input, cancel)
                    .map(|output| output.map(|output| Answer::Python(Box::new(output)))),
            )),
            call => {
                let tools = self.clone();
                Either::Right(Either::Right(stream::once(async move { tools.answer(call).await })))
            }
        }
    }

    async fn answer(&self, call: Call) -> Result<Answer> {
        Ok(match call {
            Call::ReadFile(input) => Answer::File(self.read_file(input).await?),
            Call::WriteFile(input) => Answer::Written(self.write_file(input).await?),
            Call::Bash(input) => Answer::Bash(self.bash_whole(input, CancellationToken::new()).await?),
            Call::SandboxUrl(input) => Answer::Url(self.sandbox_url(input).await?),
            Call::Python(input) => {
                Answer::Python(Box::new(self.python_whole(input, CancellationToken::new()).await?))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_parsed_according_to_its_tool() {
        let call = Call::of("bash", json!({ "command": "ls" })).unwrap();
        assert_eq!(call, Call::Bash(BashInput { command: "ls".into(), ..BashInput::default() }));
        assert_eq!(call.tool(), Tool::Bash);
        let words = |name, input| Call::of(name, input).unwrap_err().to_string();
        assert!(words("Bash", json!({})).contains("no tool `Bash`"));
        let missing = words("writeFile", json!({ "path": "a" }));
        assert!(missing.contains("writeFile") && missing.contains("`content`"), "{missing}");
        let other = words("sandboxUrl", json!({ "port": 70_000 }));
        assert!(other.contains("70000"), "{other}");
        assert!(words("bash", json!({ "command": "ls", "cwd": "/" })).contains("`cwd`"));
        assert!(words("bash", json!("ls")).contains("bash"));
    }

    #[test]
    fn only_output_of_a_running_command_is_preliminary() {
        let output = |exit_code| {
            let json = json!({ "stdout": "", "stderr": "", "exitCode": exit_code });
            Answer::Bash(serde_json::from_value(json).unwrap())
        };
        assert!(output(-1).is_preliminary());
        assert!(!output(0).is_preliminary());
        assert!(!Answer::Written(Written { success: true }).is_preliminary());
        assert_eq!(
            serde_json::to_value(Answer::Written(Written { success: true })).unwrap(),
            json!({ "success": true })
        );
    }
}
