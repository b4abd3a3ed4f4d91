//! Arguments of the tools. Unknown ones are rejected, so that a mistake is reported instead of ignored.
//!
//! Each tool has the argument `sandbox` too. It is taken out before the others are read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::KeptPart;

/// `bash`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Bash {
    /// The bash command or script to run.
    pub(crate) command: String,
    /// Directory to run it in, relative to the workspace. Default: the workspace.
    pub(crate) cwd: Option<String>,
    /// Additional environment variables.
    pub(crate) env: Option<BTreeMap<String, String>>,
    /// Time limit of the command in milliseconds. Default: 120000. The operator may have set a lower maximum.
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: Option<u64>,
    /// How long to wait for the command's end before the call returns, in milliseconds. Default: 45000.
    #[schemars(range(max = 300_000))]
    pub(crate) wait_ms: Option<u64>,
    /// Returns as soon as the command has started.
    pub(crate) background: Option<bool>,
    /// `stages` reports the exit code of each stage of the last pipeline, and what it writes to the next stage.
    pub(crate) capture: Option<String>,
    /// Makes the workspace read-only for the command.
    pub(crate) read_only: Option<bool>,
    /// Limits of what the command may use: `strict`, `normal` or `permissive`. They have time limits of their own.
    pub(crate) limits: Option<String>,
    /// Returns the commands that bash runs, as `set -x` does, apart from standard error.
    pub(crate) debug: Option<bool>,
    /// What the result has of a long output.
    pub(crate) output: Option<OutputPart>,
}

/// What a result has of a long output.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OutputPart {
    /// Which part is kept. Default: `both`, the beginning and the end.
    pub(crate) keep: Option<KeptPart>,
    /// Maximum number of characters of standard output. Standard error has at most 10000. Default: 20000.
    #[schemars(range(min = 1, max = 20_000))]
    pub(crate) max_chars: Option<u64>,
    /// The same in tokens of a language model, of 4 characters each. Not together with `maxChars`.
    #[schemars(range(min = 1, max = 5000))]
    pub(crate) max_tokens: Option<u64>,
}

/// `repository_bash`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RepositoryBash {
    /// `owner/name` on GitHub, an address that begins with `https://`, the name of an npm package, or `dir:name` of the operator.
    pub(crate) repository: String,
    /// A branch, a tag or the hash of a commit. Default: the default branch, or the latest version of a package.
    #[serde(rename = "ref")]
    pub(crate) git_ref: Option<String>,
    /// A version such as `1.2.3`. Not together with `ref`.
    pub(crate) version: Option<String>,
    /// The bash command or script to run.
    pub(crate) command: String,
    /// Time limit of the command in milliseconds. Default: 120000. The operator may have set a lower maximum.
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: Option<u64>,
    /// What the result has of a long output.
    pub(crate) output: Option<OutputPart>,
}

/// `bash_output`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BashOutput {
    /// Id of the command, from the result of `bash`.
    pub(crate) command_id: String,
    /// How long to wait for the command's end, in milliseconds. Default: 0.
    #[schemars(range(max = 300_000))]
    pub(crate) wait_ms: Option<u64>,
    /// Returns the output from its beginning, instead of what is new since the last call.
    pub(crate) from_start: Option<bool>,
    /// What the result has of a long output.
    pub(crate) output: Option<OutputPart>,
}

/// `bash_kill`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BashKill {
    /// Id of the command, from the result of `bash`.
    pub(crate) command_id: String,
    /// Signal to send instead of ending the command, such as `SIGINT`.
    pub(crate) signal: Option<String>,
}

/// `bash_list`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BashList {
    /// Maximum number of commands, newest first. Default: 20.
    #[schemars(range(min = 1, max = 200))]
    pub(crate) limit: Option<u32>,
}

/// `read`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Read {
    /// Path of the file. Relative paths start in the workspace.
    pub(crate) path: String,
    /// First line to read, counted from 1. Default: 1.
    #[schemars(range(min = 1))]
    pub(crate) offset: Option<u64>,
    /// Maximum number of lines to read. Default: 2000.
    #[schemars(range(min = 1))]
    pub(crate) limit: Option<u64>,
}

/// `write`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Write {
    /// Path of the file. Relative paths start in the workspace. Missing directories are created.
    pub(crate) path: String,
    /// Complete new content of the file.
    pub(crate) content: String,
}

/// `edit`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Edit {
    /// Path of the file. Relative paths start in the workspace.
    pub(crate) path: String,
    /// Replacements. Either all are applied or none.
    #[schemars(length(min = 1, max = 256))]
    pub(crate) edits: Vec<Replacement>,
}

/// A replacement of text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Replacement {
    /// Text to replace, exactly as in the file. It must occur once, unless `replaceAll` is set.
    pub(crate) old_text: String,
    /// Text to insert instead.
    pub(crate) new_text: String,
    /// Replaces every occurrence.
    pub(crate) replace_all: Option<bool>,
}

/// `search`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Search {
    /// Text to find in files. Without it, only names are searched.
    pub(crate) text: Option<String>,
    /// Whether `text` is a regular expression (Rust syntax, no look-around).
    pub(crate) regex: Option<bool>,
    /// Whether the case of `text` is ignored.
    pub(crate) ignore_case: Option<bool>,
    /// Glob that a file's path must match, such as `src/**/*.rs`. `*` stays within one name, `**` crosses directories.
    pub(crate) files: Option<String>,
    /// Directory to search. Default: the workspace.
    pub(crate) path: Option<String>,
    /// Also searches `.git` and what `.gitignore` excludes.
    pub(crate) include_ignored: Option<bool>,
    /// Maximum number of results. Default: 100.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) max_results: Option<u32>,
}

/// `preview_url`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PreviewUrl {
    /// Port on which the server listens in the sandbox.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) port: u16,
}

/// `download_link`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DownloadLink {
    /// File of the sandbox.
    pub(crate) path: String,
}

/// `sandbox_open`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SandboxOpen {
    /// Name under which the same sandbox is found again later. Default: a new sandbox.
    pub(crate) name: Option<String>,
}

/// `sandbox_info`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SandboxInfo {}

/// `terminal_open`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TerminalOpen {
    /// Command to run on the terminal, by a login shell. Default: an interactive shell.
    pub(crate) command: Option<String>,
    /// Directory to start in, relative to the workspace. Default: the workspace.
    pub(crate) cwd: Option<String>,
    /// Number of columns. Default: 120.
    #[schemars(range(min = 1, max = 500))]
    pub(crate) cols: Option<u32>,
    /// Number of rows. Default: 32.
    #[schemars(range(min = 1, max = 200))]
    pub(crate) rows: Option<u32>,
    /// Maximum time to wait until the screen no longer changes, in milliseconds. Default: 2000.
    #[schemars(range(max = 60_000))]
    pub(crate) wait_ms: Option<u64>,
}

/// `terminal_send`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TerminalSend {
    /// Id of the terminal, from the result of `terminal_open`.
    pub(crate) terminal_id: String,
    /// Text to type. It does not press Enter.
    pub(crate) text: Option<String>,
    /// Keys to press after the text, such as `Enter`, `Up`, `Escape`, `F1`, `Ctrl-C` or `Alt-b`.
    #[schemars(length(max = 1000))]
    pub(crate) keys: Option<Vec<String>>,
    /// Maximum time to wait until the screen no longer changes, in milliseconds. Default: 2000.
    #[schemars(range(max = 60_000))]
    pub(crate) wait_ms: Option<u64>,
}

/// `terminal_read`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TerminalRead {
    /// Id of the terminal, from the result of `terminal_open`.
    pub(crate) terminal_id: String,
    /// Maximum time to wait until the screen has changed and settled, in milliseconds. Default: 0, the screen as it is.
    #[schemars(range(max = 60_000))]
    pub(crate) wait_ms: Option<u64>,
}

/// `terminal_close`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TerminalClose {
    /// Id of the terminal, from the result of `terminal_open`.
    pub(crate) terminal_id: String,
}

/// `terminal_list`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TerminalList {}

/// `skills`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Skills {
    /// Name of the skill to read. Without it, all skills are listed.
    pub(crate) name: Option<String>,
}

/// `upload`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Upload {
    /// File of the user's machine.
    pub(crate) source: String,
    /// Path in the sandbox, including the name.
    pub(crate) path: String,
}

/// `download`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Download {
    /// File of the sandbox.
    pub(crate) path: String,
    /// Path on the user's machine, including the name.
    pub(crate) destination: String,
}
