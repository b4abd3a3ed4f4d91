//! Request and response bodies for commands, and the records of a command's stream.

use serde::{Deserialize, Serialize};

use crate::string_map::StringMap;
use crate::{CommandId, SnapshotId};

/// Request body of `POST …/commands`: a program with arguments, or a script for bash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StartCommand {
    /// Program to run, default `bash`. Cannot be combined with `script`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmd: Option<String>,
    /// Arguments of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Script to run with `bash -c`, at most 8 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Working directory, relative to the workspace. Default: the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables in addition to the sandbox's own: at most 64 entries and 32 KiB.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<std::collections::BTreeMap<String, String>>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<StringMap>,
    /// Standard input as text, at most 8 MiB. Default: empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Standard input in base64. Cannot be combined with `stdin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin_base64: Option<String>,
    /// Time limit in milliseconds, default 30000. Values below 100 or above the daemon's maximum are clamped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Keeps the command running when the client closes the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detached: Option<bool>,
    /// Does not count the command and its stream as use: the sandbox is parked as if the command did not run, which ends
    /// it. Writing to its standard input and waiting for it are use. The default of `timeoutMs` and its maximum are one
    /// day. A restart of the daemon ends the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passive: Option<bool>,
    /// Keeps standard input open for `POST …/stdin`. Input from this request is written first. Otherwise standard
    /// input is closed after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_stdin: Option<bool>,
    /// Makes the workspace read-only for the command and its children. The request is rejected if the kernel does not
    /// support this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Writes the output to a file of the sandbox if it is longer than 8 KiB: standard output and standard error in the
    /// order in which they arrive, at most 64 MiB. All of a sandbox's files of this kind have at most 256 MiB. The
    /// oldest are removed. They count towards the sandbox's disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save_output: Option<bool>,
    /// Makes bash report each command of the script before it runs it, as `set -x` does, apart from standard error: as
    /// `trace`, or as records of that name in a stream. Requires `script`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug: Option<bool>,
    /// `stages` reports each stage of the script's last pipeline: its exit code, and what it writes to the next one.
    /// Requires `script`, without `debug` and at most 64 KiB long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
    /// Limits of what the command may use: `strict`, `normal` or `permissive`. Default: only the time limit. A command
    /// that exceeds a limit is ended, and its result has `limitExceeded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<String>,
    /// Id chosen by the client. A repeated request with the same id refers to the same command and starts nothing.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<CommandId>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
}

/// Request body of `POST …/commands` and `POST …/commands:run` as `text/plain`: a script.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Script(pub String);

/// Request body of `POST …/commands:run`: a command, and how much of its output the response has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunCommand {
    /// The command.
    #[serde(flatten)]
    pub command: StartCommand,
    /// Which part of the output the response has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputOptions>,
}

/// Which part of a command's output a response has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OutputOptions {
    /// Part of a long output to keep: `head`, `tail` or `both`. Default `both`, half of the characters each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<String>,
    /// Maximum number of characters of `stdout`, and of `stderr`. Default 30000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_chars: Option<u64>,
    /// The same in tokens of a language model, estimated as 4 characters each. Cannot be combined with `maxChars`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

/// Response of `POST …/commands:run`: how the command ended, and its output as text for a language model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandRan {
    /// Id of the command.
    pub command_id: CommandId,
    /// Exit code, as a shell would report it.
    pub exit_code: i32,
    /// Signal that ended the command, such as `SIGKILL`.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
    /// Why the command ended.
    pub reason: EndReason,
    /// Time from start to end in milliseconds.
    pub duration_ms: u64,
    /// Standard output without colours and overwritten lines. One line in place of the omitted part says how long that
    /// is. Bytes that are not valid UTF-8 are replaced with U+FFFD.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// The commands that bash ran, if the request had `debug`. As long as `stdout` at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The stages of the script's last pipeline, if the request had `capture`. Empty if the last command of the script is
    /// no pipeline, or was not reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Vec<PipelineStage>>,
    /// Whether a part of the output is omitted.
    pub truncated: bool,
    /// Bytes that the daemon no longer had when it read the output.
    pub dropped_bytes: u64,
    /// File of the sandbox with the output as it was written. Null if the output is short.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub output_path: Option<String>,
    /// Whether `stdout` and `stderr`, or the file at `outputPath`, have the whole output.
    pub output_complete: bool,
    /// Set if other commands of the sandbox ended together with this one: `sandbox_sweep` or `sandbox_restart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<String>,
    /// The limit of `limits` that the command has exceeded. `reason` is `killed` then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_exceeded: Option<LimitExceeded>,
    /// The first write to the workspace that was refused because the command is `readOnly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_violation: Option<ReadOnlyViolation>,
    /// Id of the snapshot that is made after the command, if the sandbox has such `checkpoints`. It exists a moment
    /// later, unless it could not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<SnapshotId>,
}

/// One stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PipelineStage {
    /// Its text in the script, at most 1 KiB.
    pub command: String,
    /// Exit code, as a shell would report it. Null if bash has not reported it: because the command was ended, or because
    /// the script has a trap for `EXIT`.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub exit_code: Option<i32>,
    /// The beginning of what it wrote to the next stage, at most 32 KiB. Bytes that are not valid UTF-8 are replaced with
    /// U+FFFD. Null for the last stage, which writes to the command's standard output.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub stdout: Option<String>,
    /// Number of all bytes that it wrote to the next stage. Null for the last stage.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub stdout_bytes: Option<u64>,
    /// Whether `stdout` lacks a part.
    pub truncated: bool,
}

/// Response of `POST …/commands`: the command is running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandStarted {
    /// Id of the command.
    pub command_id: CommandId,
    /// Effective time limit in milliseconds.
    pub timeout_ms: u64,
}

/// Response of `GET …/commands/{id}/wait`: how the command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandEnded {
    /// Exit code, as a shell would report it.
    pub exit_code: i32,
    /// Why the command ended.
    pub reason: EndReason,
    /// Signal that ended the command, such as `SIGKILL`.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
    /// Time from start to end in milliseconds.
    pub duration_ms: u64,
    /// Set if other commands of the sandbox ended together with this one: `sandbox_sweep` or `sandbox_restart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<String>,
    /// The limit of `limits` that the command has exceeded. `reason` is `killed` then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_exceeded: Option<LimitExceeded>,
    /// The first write to the workspace that was refused because the command is `readOnly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_violation: Option<ReadOnlyViolation>,
}

/// A limit that a command has exceeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LimitExceeded {
    /// `cpuMs`, `processes`, `outputBytes` or `loopIterations`.
    pub limit: String,
    /// Value of the limit.
    pub value: u64,
}

/// A write to the workspace that a read-only command was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadOnlyViolation {
    /// `write`, `create`, `delete`, `rename` or `link` (a hard link).
    pub operation: String,
    /// Path relative to the workspace. Bytes that are not valid UTF-8 are replaced with U+FFFD.
    pub path: String,
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The command exited with its own exit code.
    Exited,
    /// The time limit expired. The exit code is 124.
    Timeout,
    /// A signal ended the command. The exit code is 128 + the signal's number.
    Killed,
    /// The sandbox ran out of memory.
    Oom,
    /// The sandbox's container stopped, so the outcome is unknown.
    Lost,
}

/// State of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// Id of the command.
    pub command_id: CommandId,
    /// Program.
    pub cmd: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Working directory at the start.
    pub cwd: String,
    /// `running` or `ended`.
    pub state: CommandState,
    /// Time of the start (RFC 3339, UTC).
    pub started_at: String,
    /// Time of the end (RFC 3339, UTC). Null while the command runs.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub ended_at: Option<String>,
    /// Exit code. Null while the command runs.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub exit_code: Option<i32>,
    /// Signal that ended the command. Null otherwise.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
    /// Why the command ended. Null while the command runs.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub reason: Option<EndReason>,
    /// Set if other commands of the sandbox ended together with this one: `sandbox_sweep` or `sandbox_restart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<String>,
    /// Time from start to end, or to now, in milliseconds.
    pub duration_ms: u64,
    /// Bytes written to standard output so far.
    pub stdout_bytes: u64,
    /// Bytes written to standard error so far.
    pub stderr_bytes: u64,
    /// Bytes written and no longer kept.
    pub dropped_bytes: u64,
    /// Effective time limit in milliseconds.
    pub timeout_ms: u64,
    /// Whether the command keeps running when the client closes its stream.
    pub detached: bool,
}

/// Response of `GET …/commands`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandList {
    /// Recorded commands, newest first. Byte counts are 0 while a command runs.
    pub commands: Vec<Command>,
}

/// Whether a command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CommandState {
    /// The main process runs.
    Running,
    /// The command has ended.
    Ended,
}

/// Request body of `POST …/commands/{id}:kill`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KillCommand {
    /// Signal to send instead of ending the command, such as `SIGINT` or `INT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

/// Response of `POST …/commands/{id}:kill`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandKilled {
    /// Always true.
    pub ok: bool,
    /// Whether the command had already ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already_ended: bool,
    /// Whether the sandbox's container was restarted because the command could not be ended otherwise. Every other
    /// command of the sandbox is lost. Files are kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restarted: bool,
}

/// One line of a command's stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "stream", rename_all = "lowercase")]
pub enum Record {
    /// First record in the stream of the client that started the command.
    #[serde(rename_all = "camelCase")]
    Start {
        /// Id of the command.
        command_id: CommandId,
        /// Time of the start (RFC 3339, UTC).
        started_at: String,
        /// Effective time limit in milliseconds.
        timeout_ms: u64,
    },
    /// Bytes written to standard output.
    Stdout(Output),
    /// Bytes written to standard error.
    Stderr(Output),
    /// Commands that bash ran, if the request had `debug`.
    Trace(Output),
    /// A stage of the script's last pipeline, if the request had `capture`: one for each in order, before `exit`.
    Stage(StageRecord),
    /// Output that is no longer kept.
    #[serde(rename_all = "camelCase")]
    Gap {
        /// Number of missing bytes.
        dropped_bytes: u64,
        /// Sequence number of the next record.
        next_seq: u64,
    },
    /// Sent after every 15 seconds without output.
    Heartbeat,
    /// Last record: how the command ended.
    #[serde(rename_all = "camelCase")]
    Exit {
        /// Exit code, as a shell would report it.
        exit_code: i32,
        /// Signal that ended the command, such as `SIGKILL`.
        #[cfg_attr(feature = "openapi", schema(required))]
        signal: Option<String>,
        /// Why the command ended.
        reason: EndReason,
        /// Time from start to end in milliseconds.
        duration_ms: u64,
        /// Bytes written to standard output in total.
        stdout_bytes: u64,
        /// Bytes written to standard error in total.
        stderr_bytes: u64,
        /// Bytes that this stream missed: the sum of its gaps.
        dropped_bytes: u64,
        /// What ended this command together with others: `sandbox_sweep` (SIGKILL to every process of the sandbox) or
        /// `sandbox_restart` (a restart of its container).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        killed_by: Option<String>,
        /// File of the sandbox with the output, if the request had `saveOutput` and the output is not short.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output_path: Option<String>,
        /// Whether the file at `outputPath` has the whole output. Otherwise only the beginning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output_complete: Option<bool>,
        /// The limit of `limits` that the command has exceeded. `reason` is `killed` then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_exceeded: Option<LimitExceeded>,
        /// The first write to the workspace that was refused because the command is `readOnly`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        read_only_violation: Option<ReadOnlyViolation>,
        /// How many connections the sandbox was denied while the command ran. Only in the stream that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denials: Option<u64>,
        /// Id of the snapshot that is made after the command, if the sandbox has such `checkpoints`. It exists a moment
        /// later, unless it could not be made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint_id: Option<SnapshotId>,
    },
}

/// The record of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StageRecord {
    /// Sequence number of the record: one more than that of the previous record.
    pub seq: u64,
    /// The stage.
    #[serde(flatten)]
    pub stage: PipelineStage,
}

/// Output from one read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Sequence number of the record: one more than that of the previous record.
    pub seq: u64,
    /// Output as text. Bytes that are not valid UTF-8 are replaced with U+FFFD.
    pub data: String,
    /// Output in base64, if it is not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_documented_shape() {
        let lines = [
            r#"{"stream":"start","commandId":"cmd_0123456789abcdef","startedAt":"2026-01-01T00:00:00Z","timeoutMs":30000}"#,
            r#"{"stream":"stdout","seq":1,"data":"hi\n"}"#,
            r#"{"stream":"stderr","seq":2,"data":"\ufffd","dataBase64":"/w=="}"#,
            r#"{"stream":"stage","seq":3,"command":"yes","exitCode":141,"stdout":"y\n","stdoutBytes":9,"truncated":true}"#,
            r#"{"stream":"gap","droppedBytes":1234,"nextSeq":9}"#,
            r#"{"stream":"heartbeat"}"#,
            r#"{"stream":"exit","exitCode":124,"signal":"SIGTERM","reason":"timeout","durationMs":12,"stdoutBytes":3,"stderrBytes":1,"droppedBytes":0}"#,
        ];
        for line in lines {
            let record: Record = serde_json::from_str(line).unwrap();
            let back: serde_json::Value = serde_json::to_value(&record).unwrap();
            assert_eq!(back, serde_json::from_str::<serde_json::Value>(line).unwrap());
        }
    }

    #[test]
    fn null_means_absent() {
        let body = r#"{"script":"true","cwd":null,"timeoutMs":null,"unknown":1}"#;
        let start: StartCommand = serde_json::from_str(body).unwrap();
        assert_eq!(start, StartCommand { script: Some("true".into()), ..StartCommand::default() });
    }
}
