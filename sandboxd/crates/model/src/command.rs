//! Commands: the request to run one, and the events that report on it.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use sandbox_api::command::EndReason;
use sandbox_api::{CommandId, SnapshotId};

use super::digest::Fields;
use super::pipeline::StageText;
use super::read_only::ReadOnlyViolation;
use super::resource_limits::{Exceeded, ResourceLimits};
use super::{RequestDigest, Secret};

/// A program to run, and the options of the run.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// Chosen by the caller, or random.
    pub id: CommandId,
    /// Identifies the request, if the caller chose the id and may repeat the request.
    pub digest: Option<RequestDigest>,
    /// What to run.
    pub program: Program,
    /// Working directory, relative to the workspace. Empty means the workspace.
    pub cwd: String,
    /// Variables in addition to the sandbox's environment. They take precedence.
    pub env: HashMap<String, String>,
    /// Written to standard input. Standard input is then closed, unless it stays open.
    pub stdin: Option<Bytes>,
    /// Whether standard input stays open for later writes.
    pub open_stdin: bool,
    /// Whether the command must not write to the workspace.
    pub read_only: bool,
    /// Time limit. The command is then ended.
    pub timeout: Duration,
    /// Whether the command continues when the caller of its stream disconnects.
    pub detached: bool,
    /// Whether the command does not keep its sandbox in use.
    pub passive: bool,
    /// If the output has more bytes than this, all of it is written to a file of the sandbox.
    pub output_file_after: Option<u64>,
    /// Whether bash reports the commands of the script that it runs.
    pub debug: bool,
    /// Values that are replaced in the output.
    pub secrets: Vec<Secret>,
    /// The stages of the script's last pipeline, if they are reported.
    pub stages: Option<Vec<StageText>>,
    /// What the command may use.
    pub resource_limits: ResourceLimits,
}

impl CommandSpec {
    /// A script of the daemon itself, without further options.
    pub fn script(id: CommandId, script: impl Into<String>, timeout: Duration) -> Self {
        Self {
            id,
            digest: None,
            program: Program::Script(script.into()),
            cwd: String::new(),
            env: HashMap::new(),
            stdin: None,
            open_stdin: false,
            read_only: false,
            timeout,
            detached: false,
            passive: false,
            output_file_after: None,
            debug: false,
            secrets: Vec::new(),
            stages: None,
            resource_limits: ResourceLimits::default(),
        }
    }

    /// The digest of the request. Call this before the sandbox's own environment is added.
    pub fn request_digest(&self) -> RequestDigest {
        let mut fields = Fields::default();
        match &self.program {
            Program::Argv { program, args } => {
                fields.add(b"argv");
                fields.add(program.as_bytes());
                fields.count(args.len());
                args.iter().for_each(|arg| fields.add(arg.as_bytes()));
            }
            Program::Script(script) => {
                fields.add(b"script");
                fields.add(script.as_bytes());
            }
        }
        fields.add(self.cwd.as_bytes());
        let mut env: Vec<_> = self.env.iter().collect();
        env.sort();
        fields.count(env.len());
        for (name, value) in env {
            fields.add(name.as_bytes());
            fields.add(value.as_bytes());
        }
        fields.count(usize::from(self.stdin.is_some()));
        fields.add(self.stdin.as_deref().unwrap_or_default());
        fields.add(&[u8::from(self.open_stdin), u8::from(self.read_only), u8::from(self.detached)]);
        fields.add(&(self.timeout.as_millis() as u64).to_le_bytes());
        // If it is absent, nothing is added, so that digests stay equal to those of earlier versions.
        if let Some(after) = self.output_file_after {
            fields.add(b"output file");
            fields.add(&after.to_le_bytes());
        }
        if self.debug {
            fields.add(b"debug");
        }
        if self.stages.is_some() {
            fields.add(b"stages");
        }
        if !self.resource_limits.is_empty() {
            let ResourceLimits { cpu, processes, output_bytes, loop_iterations } = self.resource_limits;
            let cpu_ms = cpu.map(|cpu| cpu.as_millis() as u64);
            fields.add(b"limits");
            for limit in [cpu_ms, processes.map(u64::from), output_bytes, loop_iterations.map(u64::from)] {
                fields.add(&limit.unwrap_or(0).to_le_bytes());
            }
        }
        match self.passive {
            true => fields.passive_digest(),
            false => fields.digest(),
        }
    }
}

/// Why standard input is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinState {
    /// The command was started without `openStdin`.
    NeverOpened,
    /// A writer or the command itself closed it.
    Closed,
    /// The command has ended.
    Ended,
}

impl StdinState {
    /// The name in an API response.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeverOpened => "neverOpened",
            Self::Closed => "closed",
            Self::Ended => "ended",
        }
    }
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments.
    Argv {
        /// Looked up in PATH.
        program: String,
        /// The arguments after the program.
        args: Vec<String>,
    },
    /// A script for `bash -c`.
    Script(String),
}

/// A command has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// Milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The effective time limit.
    pub timeout: Duration,
    /// Whether the command continues when the caller of its stream disconnects.
    pub detached: bool,
}

/// One of a command's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// What bash reports about the commands that it runs.
    Trace,
    /// Reports about the stages of a pipeline.
    Stage,
}

/// How a stage of a pipeline ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageEnd {
    /// Its text in the script.
    pub command: String,
    /// Its exit code, if bash has reported it.
    pub exit_code: Option<i32>,
    /// Number of bytes that it wrote to the next stage. The last stage has none.
    pub output_bytes: Option<u64>,
}

/// Output from one read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Sequence number: one more than that of the previous record.
    pub seq: u64,
    /// The stream that the command wrote to.
    pub stream: Stream,
    /// The bytes. In the report of a stage: the beginning of what it wrote to the next one.
    pub data: Bytes,
    /// The stage, in the report of one.
    pub stage: Option<Box<StageEnd>>,
}

/// An event of a command, for its readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// First event for the caller that started the command.
    Started(Started),
    /// Output, in order.
    Output(Vec<Record>),
    /// Output that is no longer kept.
    Gap {
        /// Number of missing bytes.
        dropped_bytes: u64,
        /// Sequence number of the next record.
        next_seq: u64,
    },
    /// There was no event for [`HEARTBEAT`](super::limits::HEARTBEAT).
    Heartbeat,
    /// Last event.
    Ended {
        /// How the command ended.
        ended: Ended,
        /// The snapshot that is made after it.
        checkpoint: Option<SnapshotId>,
    },
}

/// What ended a command together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KilledBy {
    /// SIGKILL to every process of the sandbox.
    Sweep,
    /// A restart of the sandbox's container.
    Restart,
}

impl KilledBy {
    /// The name in an API response.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sweep => "sandbox_sweep",
            Self::Restart => "sandbox_restart",
        }
    }
}

/// Result of a request to end a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Killed {
    /// Whether the command had already ended.
    pub already_ended: bool,
    /// Whether the sandbox's container was restarted to end the command.
    pub restarted: bool,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Reason of the end.
    pub reason: EndReason,
    /// As a shell would report it.
    pub exit_code: i32,
    /// Number of the signal that ended the command.
    pub signal: Option<i32>,
    /// From start to end.
    pub duration: Duration,
    /// Bytes written to standard output in total.
    pub stdout_bytes: u64,
    /// Bytes written to standard error in total.
    pub stderr_bytes: u64,
    /// Bytes that were written and are no longer kept.
    pub dropped_bytes: u64,
    /// What ended the command together with other commands.
    pub killed_by: Option<KilledBy>,
    /// The file with the output. It is known only to callers that follow the command.
    pub output_file: Option<OutputFile>,
    /// The limit that the command has exceeded.
    pub exceeded: Option<Exceeded>,
    /// The first write that was refused because the command is read-only, if it was noticed.
    pub read_only_violation: Option<ReadOnlyViolation>,
    /// How many connections the sandbox was denied while the command ran. It is known only to the stream that started it.
    pub denials: Option<u64>,
}

/// A file of the sandbox with a command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputFile {
    /// Size at the command's end.
    pub bytes: u64,
    /// Whether it has the whole output. Otherwise it has only the beginning.
    pub is_complete: bool,
}

impl Ended {
    /// The end of a command whose sandbox stopped. Its actual end cannot be known.
    pub const LOST: Self = Self {
        reason: EndReason::Lost,
        exit_code: 137,
        signal: None,
        duration: Duration::ZERO,
        stdout_bytes: 0,
        stderr_bytes: 0,
        dropped_bytes: 0,
        killed_by: None,
        output_file: None,
        exceeded: None,
        read_only_violation: None,
        denials: None,
    };
}

/// State of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandStatus {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// Start and time limit.
    pub started: Started,
    /// How the command ended, if it has.
    pub ended: Option<Ended>,
    /// Bytes written to standard output so far.
    pub stdout_bytes: u64,
    /// Bytes written to standard error so far.
    pub stderr_bytes: u64,
    /// Bytes that were written and are no longer kept.
    pub dropped_bytes: u64,
}

/// Signals that a caller may send, with the numbers of signal(7) on x86-64 and arm64.
pub const SIGNALS: [(&str, i32); 14] = [
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGABRT", 6),
    ("SIGKILL", 9),
    ("SIGUSR1", 10),
    ("SIGSEGV", 11),
    ("SIGUSR2", 12),
    ("SIGPIPE", 13),
    ("SIGALRM", 14),
    ("SIGTERM", 15),
    ("SIGCONT", 18),
    ("SIGSTOP", 19),
    ("SIGWINCH", 28),
];

/// The name of a signal. `SIG` and the number for signals that are not in [`SIGNALS`].
pub fn signal_name(number: i32) -> String {
    let known = SIGNALS.iter().find(|(_, known)| *known == number);
    known.map_or_else(|| format!("SIG{number}"), |(name, _)| (*name).to_owned())
}

/// A signal's number by its name, with or without `SIG`.
pub fn signal_number(name: &str) -> Option<i32> {
    let known = |(full, _): &&(&str, i32)| *full == name || full.strip_prefix("SIG") == Some(name);
    SIGNALS.iter().find(known).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LimitProfile;

    #[test]
    fn signals_have_a_short_and_a_long_name() {
        assert_eq!(signal_number("INT"), Some(2));
        assert_eq!(signal_number("SIGINT"), Some(2));
        assert_eq!(signal_number("NOPE"), None);
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(31), "SIG31");
    }

    fn spec() -> CommandSpec {
        CommandSpec {
            id: "cmd_0123456789abcdef".parse().unwrap(),
            digest: None,
            program: Program::Argv { program: "echo".into(), args: vec!["a".into(), "b".into()] },
            cwd: "src".into(),
            env: HashMap::from([("A".into(), "1".into()), ("B".into(), "2".into())]),
            stdin: None,
            open_stdin: false,
            read_only: false,
            timeout: Duration::from_secs(30),
            detached: false,
            passive: false,
            output_file_after: None,
            debug: false,
            secrets: Vec::new(),
            stages: None,
            resource_limits: ResourceLimits::default(),
        }
    }

    #[test]
    fn the_same_request_has_the_same_digest_under_any_id() {
        let again = CommandSpec { id: "cmd_another123456789".parse().unwrap(), ..spec() };
        assert_eq!(spec().request_digest(), again.request_digest());
    }

    #[test]
    fn the_digest_of_a_passive_command_is_known_as_such() {
        let passive = CommandSpec { passive: true, ..spec() };
        let other = CommandSpec { detached: true, ..passive.clone() };
        assert!(passive.request_digest().is_passive() && !spec().request_digest().is_passive());
        assert_ne!(passive.request_digest(), other.request_digest());
    }

    #[test]
    fn every_field_changes_the_digest() {
        let argv = |args: &[&str]| Program::Argv {
            program: "echo".into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        };
        let others = [
            CommandSpec { program: argv(&["ab"]), ..spec() },
            CommandSpec { program: argv(&["a", "b", ""]), ..spec() },
            CommandSpec { program: Program::Script("echo a b".into()), ..spec() },
            CommandSpec { cwd: String::new(), ..spec() },
            CommandSpec { env: HashMap::from([("A".into(), "1".into())]), ..spec() },
            CommandSpec { stdin: Some(Bytes::new()), ..spec() },
            CommandSpec { stdin: Some(Bytes::from_static(b"in")), ..spec() },
            CommandSpec { open_stdin: true, ..spec() },
            CommandSpec { read_only: true, ..spec() },
            CommandSpec { detached: true, ..spec() },
            CommandSpec { passive: true, ..spec() },
            CommandSpec { timeout: Duration::from_secs(31), ..spec() },
            CommandSpec { output_file_after: Some(0), ..spec() },
            CommandSpec { output_file_after: Some(1), ..spec() },
            CommandSpec { debug: true, ..spec() },
            CommandSpec { stages: Some(Vec::new()), ..spec() },
            CommandSpec { resource_limits: LimitProfile::Strict.resources(true), ..spec() },
            CommandSpec { resource_limits: LimitProfile::Strict.resources(false), ..spec() },
        ];
        let digests: Vec<_> = others.iter().chain([&spec()]).map(CommandSpec::request_digest).collect();
        for (at, digest) in digests.iter().enumerate() {
            assert_eq!(digests.iter().position(|other| other == digest), Some(at), "{:?}", others.get(at));
        }
    }
}
