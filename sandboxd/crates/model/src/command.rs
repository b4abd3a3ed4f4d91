//! A command as the daemon sees it: what is asked for, what is heard of it.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use sandbox_api::CommandId;
use sandbox_api::command::EndReason;

use super::RequestDigest;
use super::digest::Fields;

/// What to run and how.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// Chosen by the caller or made here.
    pub id: CommandId,
    /// Identifies the request, if the caller chose the id and may repeat the request.
    pub digest: Option<RequestDigest>,
    /// What to run.
    pub program: Program,
    /// Relative to the workspace; empty is the workspace.
    pub cwd: String,
    /// On top of the sandbox's environment.
    pub env: HashMap<String, String>,
    /// Written to standard input, which is then closed unless it stays open.
    pub stdin: Option<Bytes>,
    /// Whether others may write to standard input later.
    pub open_stdin: bool,
    /// Whether it may not write to the workspace.
    pub read_only: bool,
    /// After which it is ended.
    pub timeout: Duration,
    /// Goes on when the caller of its stream leaves.
    pub detached: bool,
}

impl CommandSpec {
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
        fields.digest()
    }
}

/// Why standard input is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinState {
    /// The command was started without `openStdin`.
    NeverOpened,
    /// By a writer, or by the command itself.
    Closed,
    /// With the command.
    Ended,
}

impl StdinState {
    /// Its name in an answer.
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
        /// Looked up on PATH.
        program: String,
        /// What follows it.
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
    /// The limit that holds.
    pub timeout: Duration,
    /// Goes on when the caller of its stream leaves.
    pub detached: bool,
}

/// Which of a command's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Bytes one read of a command's output brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// One more than that of the record before.
    pub seq: u64,
    /// Where it was written.
    pub stream: Stream,
    /// What was written.
    pub data: Bytes,
}

/// What a reader of a command hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// First, for the caller that started the command.
    Started(Started),
    /// Output, in order.
    Output(Vec<Record>),
    /// Output that is no longer kept.
    Gap {
        /// How much.
        dropped_bytes: u64,
        /// The record that follows.
        next_seq: u64,
    },
    /// Nothing happened for a while.
    Heartbeat,
    /// Last.
    Ended(Ended),
}

/// What ended a command together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KilledBy {
    /// A KILL to every process of the sandbox.
    Sweep,
    /// A restart of the sandbox's container.
    Restart,
}

impl KilledBy {
    /// Its name in an answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sweep => "sandbox_sweep",
            Self::Restart => "sandbox_restart",
        }
    }
}

/// The answer to a request to end a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Killed {
    /// It had ended before.
    pub already_ended: bool,
    /// The sandbox's container was restarted to end it.
    pub restarted: bool,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub reason: EndReason,
    /// As a shell would report it.
    pub exit_code: i32,
    /// Number of the signal that ended it.
    pub signal: Option<i32>,
    /// From start to end.
    pub duration: Duration,
    /// Written in all.
    pub stdout_bytes: u64,
    /// Written in all.
    pub stderr_bytes: u64,
    /// Written and no longer kept.
    pub dropped_bytes: u64,
    /// What ended it besides itself, where other commands were ended too.
    pub killed_by: Option<KilledBy>,
}

impl Ended {
    /// The end of a command whose sandbox went away: nobody can tell how it would have ended.
    pub const LOST: Self = Self {
        reason: EndReason::Lost,
        exit_code: 137,
        signal: None,
        duration: Duration::ZERO,
        stdout_bytes: 0,
        stderr_bytes: 0,
        dropped_bytes: 0,
        killed_by: None,
    };
}

/// What is known of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandStatus {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where it was started.
    pub cwd: String,
    /// When, and for how long at most.
    pub started: Started,
    /// How it ended, once it has.
    pub ended: Option<Ended>,
    /// Written so far.
    pub stdout_bytes: u64,
    /// Written so far.
    pub stderr_bytes: u64,
    /// Written and no longer kept.
    pub dropped_bytes: u64,
}

/// Signals a caller may send, as signal(7) numbers them on x86-64 and arm64.
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

/// A signal by its number, for those that end commands without having a name here.
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

    #[test]
    fn signals_go_by_both_names() {
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
        }
    }

    #[test]
    fn the_same_request_has_the_same_digest_under_any_id() {
        let again = CommandSpec { id: "cmd_another123456789".parse().unwrap(), ..spec() };
        assert_eq!(spec().request_digest(), again.request_digest());
    }

    #[test]
    fn every_field_counts() {
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
            CommandSpec { timeout: Duration::from_secs(31), ..spec() },
        ];
        let digests: Vec<_> = others.iter().chain([&spec()]).map(CommandSpec::request_digest).collect();
        for (at, digest) in digests.iter().enumerate() {
            assert_eq!(digests.iter().position(|other| other == digest), Some(at), "{:?}", others.get(at));
        }
    }
}
