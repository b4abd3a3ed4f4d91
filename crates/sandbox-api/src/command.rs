//! Commands: starting one, and the records its stream is made of.

use serde::{Deserialize, Serialize};

use crate::CommandId;
use crate::sandbox::StringMap;

/// `POST …/commands`: a program with arguments, or a script for bash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StartCommand {
    /// The program; default `bash`. Not together with `script`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmd: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Run by `bash -c`, up to 8 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Working directory, relative to the workspace; default the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// On top of the sandbox's environment: up to 64 entries, 32 KiB.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<std::collections::BTreeMap<String, String>>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<StringMap>,
    /// Standard input as text, up to 8 MiB. Without it standard input is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Standard input in base64; not together with `stdin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin_base64: Option<String>,
    /// Milliseconds until the command is ended, default 30000; clamped to 1000 and the daemon's maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Go on when the caller of a stream leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detached: Option<bool>,
    /// Keep standard input open for `POST …/stdin`; what is given here comes first. Otherwise it is closed after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_stdin: Option<bool>,
    /// Make the workspace not writable for the command and its children; refused where the kernel cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Chosen by the caller: the same id again answers for the same command.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<CommandId>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
}

/// A command that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandStarted {
    /// Its id.
    pub command_id: CommandId,
    /// The limit that holds, in milliseconds.
    pub timeout_ms: u64,
}

/// `GET …/commands/{id}/wait`: how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandEnded {
    /// As a shell would report it.
    pub exit_code: i32,
    /// Why it ended.
    pub reason: EndReason,
    /// The signal that ended it, such as `SIGKILL`.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
    /// From start to end.
    pub duration_ms: u64,
    /// `sandbox_sweep` or `sandbox_restart`: other commands of the sandbox were ended with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<String>,
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// By itself, with the exit code it chose.
    Exited,
    /// It ran out of time; exit code 124.
    Timeout,
    /// By a signal; exit code 128 + signal.
    Killed,
    /// The sandbox's memory was full.
    Oom,
    /// Its sandbox went away and nobody can tell.
    Lost,
}

/// `GET …/commands/{id}`: what is known of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// Its id.
    pub command_id: CommandId,
    /// The program.
    pub cmd: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it was started.
    pub cwd: String,
    /// `running` or `ended`.
    pub state: CommandState,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub ended_at: Option<String>,
    /// Where it has ended.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub exit_code: Option<i32>,
    /// Where a signal ended it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
    /// Where it has ended.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub reason: Option<EndReason>,
    /// `sandbox_sweep` or `sandbox_restart`: other commands of the sandbox were ended with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<String>,
    /// So far, or from start to end.
    pub duration_ms: u64,
    /// Written so far.
    pub stdout_bytes: u64,
    /// Written so far.
    pub stderr_bytes: u64,
    /// Written and no longer kept.
    pub dropped_bytes: u64,
    /// The limit that holds.
    pub timeout_ms: u64,
    /// Whether it goes on when the caller of its stream leaves.
    pub detached: bool,
}

/// `GET …/commands`: the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandList {
    /// Those that are still written down; byte counts are 0 while a command runs.
    pub commands: Vec<Command>,
}

/// Whether a command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CommandState {
    /// Its main process lives.
    Running,
    /// Its end is known.
    Ended,
}

/// `POST …/commands/{id}:kill`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KillCommand {
    /// A signal's name to send instead of ending the command: `SIGINT` or `INT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

/// The answer to `:kill`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandKilled {
    /// Always true.
    pub ok: bool,
    /// The command had ended before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already_ended: bool,
    /// The sandbox's container was restarted, because the command could not be ended otherwise. Every other command of
    /// the sandbox is lost; the files stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restarted: bool,
}

/// One line of a command's stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "stream", rename_all = "lowercase")]
pub enum Record {
    /// First in the stream of the caller that started the command.
    #[serde(rename_all = "camelCase")]
    Start {
        /// Its id.
        command_id: CommandId,
        /// RFC 3339, UTC.
        started_at: String,
        /// The limit that holds.
        timeout_ms: u64,
    },
    /// Bytes written to standard output.
    Stdout(Output),
    /// Bytes written to standard error.
    Stderr(Output),
    /// Output that is no longer kept.
    #[serde(rename_all = "camelCase")]
    Gap {
        /// How much.
        dropped_bytes: u64,
        /// The record that follows.
        next_seq: u64,
    },
    /// Every 15 seconds without output.
    Heartbeat,
    /// Last: how it ended.
    #[serde(rename_all = "camelCase")]
    Exit {
        /// As a shell would report it.
        exit_code: i32,
        /// The signal that ended it, such as `SIGKILL`.
        #[cfg_attr(feature = "openapi", schema(required))]
        signal: Option<String>,
        /// Why it ended.
        reason: EndReason,
        /// From start to end.
        duration_ms: u64,
        /// Written in all.
        stdout_bytes: u64,
        /// Written in all.
        stderr_bytes: u64,
        /// Written and missed by this stream: the sum of its gaps.
        dropped_bytes: u64,
        /// What ended it together with other commands: `sandbox_sweep`, a KILL to every process of the sandbox, or
        /// `sandbox_restart`, a restart of its container.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        killed_by: Option<String>,
    },
}

/// What one read of a command's output brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// One more than that of the record before.
    pub seq: u64,
    /// The text; where the bytes are no UTF-8, with U+FFFD in their place.
    pub data: String,
    /// The bytes, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_shape_of_the_contract() {
        let lines = [
            r#"{"stream":"start","commandId":"cmd_0123456789abcdef","startedAt":"2026-01-01T00:00:00Z","timeoutMs":30000}"#,
            r#"{"stream":"stdout","seq":1,"data":"hi\n"}"#,
            r#"{"stream":"stderr","seq":2,"data":"\ufffd","dataBase64":"/w=="}"#,
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
