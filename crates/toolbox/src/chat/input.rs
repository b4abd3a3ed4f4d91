//! Arguments of the tools. Unknown ones are rejected, so that a mistake is reported instead of ignored.

use schemars::JsonSchema;
use serde::Deserialize;

/// `bash`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashInput {
    /// The bash command or script to run.
    pub command: String,
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
