//! Arguments of the tools. Unknown ones are rejected, so that a mistake is reported instead of ignored.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::KeptPart;

/// `bash`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashInput {
    /// The bash command or script to run.
    pub command: String,
    /// What the result has of a long output. For the app that makes the call: the model has no such argument.
    #[serde(skip)]
    pub output: Option<OutputPart>,
}

/// What a result has of a long output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputPart {
    /// Which part is kept. The default depends on the result: a stream of values shows the end, a single one the beginning.
    pub keep: Option<KeptPart>,
    /// Maximum number of characters of standard output, by default and at most
    /// [`max_stdout_chars`](super::OutputLimits::max_stdout_chars).
    pub max_chars: Option<u64>,
    /// The same in tokens of a language model, of 4 characters each. Not together with `max_chars`.
    pub max_tokens: Option<u64>,
}

/// `readFile`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadFileInput {
    /// Path of the file. Relative paths start in the workspace.
    pub path: String,
    /// First line to read, counted from 1. Default: 1.
    #[schemars(range(min = 1))]
    pub offset: Option<u64>,
    /// Maximum number of lines to read. Default: as many as fit.
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

/// `writeFile`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFileInput {
    /// Path of the file. Relative paths start in the workspace. Missing directories are created.
    pub path: String,
    /// Complete new content of the file.
    pub content: String,
}

/// `sandboxUrl`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxUrlInput {
    /// Port on which the server listens inside the sandbox.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
}

/// `python`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PythonInput {
    /// The Python code to run.
    pub code: String,
}
