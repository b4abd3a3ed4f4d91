//! Structured results of the tools. Each has an output schema.

use sandbox_api::command::{self, EndReason};
use sandbox_api::repository::RepositoryRan;
use sandbox_api::{CommandId, TerminalId};
use schemars::JsonSchema;
use serde::Serialize;

/// Result of `bash` and `bash_output`: how a command ended, or what it has written so far.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandResult {
    /// Id of the command, for `bash_output` and `bash_kill`.
    #[schemars(with = "String")]
    pub(crate) command_id: CommandId,
    /// Whether the command still runs.
    pub(crate) running: bool,
    /// Exit code. Absent while the command runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    /// Why the command ended: `exited`, `timeout`, `killed`, `oom` or `lost`.
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<EndReason>,
    /// Signal that ended the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
    /// Time from start to end in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<u64>,
    /// Standard output, without colours. One line replaces what does not fit.
    pub(crate) stdout: String,
    /// Standard error, likewise.
    pub(crate) stderr: String,
    /// The commands that bash ran, with `debug`. Absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<String>,
    /// The stages of the last pipeline, with `capture`. Absent if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub(crate) stages: Vec<Stage>,
    /// Whether a part of the output is not shown.
    pub(crate) truncated: bool,
    /// File with the whole output, for `read` and `search`. Absent if the output is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_path: Option<String>,
    /// Whether that file, or without one this result and earlier ones, have the whole output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_complete: Option<bool>,
    /// Hosts that the sandbox was not allowed to connect to while the command ran. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub(crate) denied_hosts: Vec<DeniedHost>,
    /// The limit of `limits` that the command has exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit_exceeded: Option<LimitExceeded>,
    /// The first write that a command with `readOnly` was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read_only_violation: Option<ReadOnlyViolation>,
}

/// Result of `repository_bash`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RepositoryResult {
    /// Address of the repository, or `dir:name`.
    pub(crate) repository: String,
    /// Hash of the commit, or of the files of a directory.
    pub(crate) resolved_ref: String,
    /// Version of the package, or the version that the call named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resolved_version: Option<String>,
    /// The branch that the call named, or the default one. Absent if it named something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) branch: Option<String>,
    /// Tags of the commit that are known.
    pub(crate) tags: Vec<String>,
    /// What is missing in the files: `submodules` (empty directories), `lfs` (pointers), `skipped` (special or unreadable files).
    pub(crate) warnings: Vec<String>,
    /// Exit code.
    pub(crate) exit_code: i32,
    /// Why the command ended: `exited`, `timeout`, `killed`, `oom` or `lost`.
    #[schemars(with = "String")]
    pub(crate) reason: EndReason,
    /// Time from start to end in milliseconds.
    pub(crate) duration_ms: u64,
    /// Standard output, without colours. One line replaces what does not fit.
    pub(crate) stdout: String,
    /// Standard error, likewise.
    pub(crate) stderr: String,
    /// Whether a part of the output is not shown.
    pub(crate) truncated: bool,
    /// File with the whole output, for a later command in the same repository. Absent if the output is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_path: Option<String>,
}

impl From<RepositoryRan> for RepositoryResult {
    fn from(ran: RepositoryRan) -> Self {
        Self {
            repository: ran.repository,
            resolved_ref: ran.resolved_ref,
            resolved_version: ran.resolved_version,
            branch: ran.branch,
            tags: ran.tags,
            warnings: ran.warnings,
            exit_code: ran.exit_code,
            reason: ran.reason,
            duration_ms: ran.duration_ms,
            stdout: ran.stdout,
            stderr: ran.stderr,
            truncated: ran.truncated,
            output_path: ran.output_path,
        }
    }
}

/// A limit that a command has exceeded.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitExceeded {
    /// `cpuMs`, `processes`, `outputBytes` or `loopIterations`.
    pub(crate) limit: String,
    /// Value of the limit.
    pub(crate) value: u64,
}

impl From<command::LimitExceeded> for LimitExceeded {
    fn from(command::LimitExceeded { limit, value }: command::LimitExceeded) -> Self {
        Self { limit, value }
    }
}

/// A write to the workspace that was refused.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadOnlyViolation {
    /// `write`, `create`, `delete`, `rename` or `link` (a hard link).
    pub(crate) operation: String,
    /// Path relative to the workspace.
    pub(crate) path: String,
}

impl From<command::ReadOnlyViolation> for ReadOnlyViolation {
    fn from(command::ReadOnlyViolation { operation, path }: command::ReadOnlyViolation) -> Self {
        Self { operation, path }
    }
}

/// A stage of a pipeline.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stage {
    /// Its command.
    pub(crate) command: String,
    /// Exit code. Absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    /// The beginning of what it wrote to the next stage. Absent for the last stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdout: Option<String>,
    /// How many bytes it wrote to the next stage. Absent for the last stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdout_bytes: Option<u64>,
    /// Whether `stdout` lacks a part.
    pub(crate) truncated: bool,
}

/// A host that a command was denied.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeniedHost {
    /// Name or address of the host.
    pub(crate) host: String,
    /// Port that was denied.
    pub(crate) port: u16,
    /// What the user has said.
    pub(crate) approval: Approval,
    /// What that means, and what to do.
    pub(crate) message: String,
}

/// What the user has said about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Approval {
    /// The user was not asked.
    NotAsked,
    /// The host is now allowed for one use.
    AllowedOnce,
    /// The host is now allowed for as long as the sandbox exists.
    AllowedForSandbox,
    /// The user does not allow the host.
    Declined,
    /// The user has not answered.
    Unanswered,
    /// The user allows the host, but it must not be allowed.
    NotAllowed,
}

/// Result of `bash_kill`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Killed {
    /// Id of the command.
    #[schemars(with = "String")]
    pub(crate) command_id: CommandId,
    /// Whether the command had already ended.
    pub(crate) already_ended: bool,
    /// Whether the sandbox was restarted to end the command. Every other command of it is lost, files are kept.
    pub(crate) restarted: bool,
}

/// Result of `bash_list`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Commands {
    /// Commands of the sandbox, newest first.
    pub(crate) commands: Vec<ListedCommand>,
}

/// A command in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedCommand {
    /// Id of the command.
    #[schemars(with = "String")]
    pub(crate) command_id: CommandId,
    /// The command's first characters.
    pub(crate) command: String,
    /// Whether the command still runs.
    pub(crate) running: bool,
    /// Time of the start (RFC 3339, UTC).
    pub(crate) started_at: String,
    /// Exit code. Absent while the command runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
}

/// Result of `read`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileText {
    /// Lines of the file.
    pub(crate) content: String,
    /// Number of the first line, counted from 1.
    pub(crate) first_line: u64,
    /// Number of the next line, if there are more. Pass it as `offset`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_offset: Option<u64>,
    /// Characters that are missing at the end of the last line, because it is too long for a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cut_chars: Option<u64>,
    /// Size of the file in bytes.
    pub(crate) file_bytes: u64,
}

/// Result of `write`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Written {
    /// Path as given.
    pub(crate) path: String,
    /// Size of the file in bytes.
    pub(crate) bytes: u64,
    /// Whether the file is new.
    pub(crate) created: bool,
}

/// Result of `edit`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Edited {
    /// Unified diff. One line replaces what does not fit.
    pub(crate) diff: String,
    /// First changed line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_changed_line: Option<u64>,
}

/// Result of `search`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Found {
    /// Matching lines, or files if no text was searched.
    pub(crate) matches: Vec<Match>,
    /// Whether there may be more.
    pub(crate) truncated: bool,
}

/// A matching line or file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Match {
    /// Path relative to the workspace.
    pub(crate) path: String,
    /// Line number, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
    /// The line's first characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

/// Result of `preview_url`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Preview {
    /// URL for the user's browser.
    pub(crate) url: String,
}

/// Result of `download_link`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileLink {
    /// URL for the user's browser.
    pub(crate) url: String,
    /// When the URL expires (RFC 3339).
    pub(crate) expires_at: String,
    /// Size of the file in bytes.
    pub(crate) bytes: u64,
}

/// Result of `sandbox_open`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Opened {
    /// Handle of the sandbox. Pass it as `sandbox` in every further call.
    pub(crate) sandbox: String,
    /// Whether the sandbox is new. Otherwise, its files are as they were left.
    pub(crate) created: bool,
}

/// Result of `sandbox_info`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Info {
    /// Handle of the sandbox.
    pub(crate) sandbox: String,
    /// State: `running`, `parked`, …
    pub(crate) state: String,
    /// Directory in which commands start and relative paths begin.
    pub(crate) workspace: String,
    /// Number of processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vcpus: Option<u64>,
    /// Memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_mb: Option<u64>,
    /// Size of the workspace in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk_mb: Option<u64>,
    /// Bytes of the workspace that are in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk_used_bytes: Option<u64>,
    /// Network access: `default` (the public internet), `allowlist` or `none`.
    pub(crate) network: String,
    /// Hosts that may be reached besides, or in mode `allowlist` only.
    pub(crate) allowed_hosts: Vec<String>,
    /// Ports that `preview_url` can show.
    pub(crate) ports: Vec<u16>,
    /// Number of running commands.
    pub(crate) running_commands: u32,
    /// When the sandbox is parked, or a parked one deleted, if it is not used before (RFC 3339, UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
}

/// Result of `terminal_open`, `terminal_send` and `terminal_read`: the screen.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TerminalScreen {
    /// Id of the terminal.
    #[schemars(with = "String")]
    pub(crate) terminal_id: TerminalId,
    /// Whether its program still runs.
    pub(crate) running: bool,
    /// Rows of the screen, without empty rows at the end.
    pub(crate) screen: String,
    /// Row of the cursor, counted from 0 at the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor_row: Option<u32>,
    /// Column of the cursor, counted from 0 at the left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor_col: Option<u32>,
    /// Exit code of the program. Absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
}

/// Result of `terminal_close`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TerminalClosed {
    /// Id of the terminal.
    #[schemars(with = "String")]
    pub(crate) terminal_id: TerminalId,
}

/// Result of `terminal_list`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Terminals {
    /// Terminals of the sandbox, newest first.
    pub(crate) terminals: Vec<ListedTerminal>,
}

/// A terminal in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedTerminal {
    /// Id of the terminal.
    #[schemars(with = "String")]
    pub(crate) terminal_id: TerminalId,
    /// Program and arguments.
    pub(crate) command: String,
    /// Whether the program still runs.
    pub(crate) running: bool,
    /// Number of columns.
    pub(crate) cols: u32,
    /// Number of rows.
    pub(crate) rows: u32,
}

/// Result of `skills`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Skills {
    /// The skills, or the one that was named.
    pub(crate) skills: Vec<Skill>,
    /// Content of the skill that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<String>,
}

/// A skill.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Skill {
    /// Name of the skill.
    pub(crate) name: String,
    /// When to use it.
    pub(crate) description: String,
    /// Folder with the skill's files.
    pub(crate) folder: String,
}

/// Result of `upload`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Uploaded {
    /// Path in the sandbox, as given.
    pub(crate) path: String,
    /// Size of the file in bytes.
    pub(crate) bytes: u64,
    /// Whether the file is new in the sandbox.
    pub(crate) created: bool,
}

/// Result of `download`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Downloaded {
    /// Path on the user's machine, as given.
    pub(crate) destination: String,
    /// Size of the file in bytes.
    pub(crate) bytes: u64,
    /// Whether a file was replaced.
    pub(crate) replaced: bool,
}
