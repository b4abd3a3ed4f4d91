//! Inputs and results of tools. Unknown input fields are rejected, so that a mistake is reported instead of ignored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The file's path; relative paths begin in the workspace.
    pub path: String,
    /// The first line to read, counted from 1; default 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub offset: Option<u64>,
    /// How many lines to read at most; default as many as fit.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

/// `writeFile`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFileInput {
    /// The file's path; relative paths begin in the workspace. Missing directories are made.
    pub path: String,
    /// All that the file is to hold.
    pub content: String,
}

/// `sandboxUrl`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxUrlInput {
    /// The port that the server listens on inside the sandbox.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
}

/// Result of `readFile`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// The text, followed by a notice if it is incomplete.
    pub content: String,
}

/// Result of `writeFile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Always true. A failure is an error.
    pub success: bool,
}

/// Result of `sandboxUrl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxUrl {
    /// URL for the user's browser.
    pub url: String,
}
