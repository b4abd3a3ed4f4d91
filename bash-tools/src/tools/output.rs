//! Output of a command for the model and the UI.

use output_text::{Head, Tail};
use serde::{Deserialize, Serialize};

use crate::provider::{End, EndReason};

/// Exit code of a command that still runs.
pub const RUNNING: i32 = -1;

/// Exit code of a command whose time limit expired, as in coreutils' `timeout`.
pub const TIMED_OUT: i32 = 124;

/// Exit code of a cancelled command, as a shell reports an interrupt.
pub const CANCELLED: i32 = 130;

/// State of a command, during the run or at its end. Each value is complete, not a difference from the previous one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BashOutput {
    /// End of standard output, at most as many characters as configured.
    pub stdout: String,
    /// End of standard error, followed by a notice if the command did not end by itself.
    pub stderr: String,
    /// Exit code, as a shell would report it. [`RUNNING`] while the command runs.
    pub exit_code: i32,
    /// Number of characters of standard output that are missing in `stdout`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_truncated_chars: Option<u64>,
    /// Number of characters of standard error that are missing in `stderr`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_truncated_chars: Option<u64>,
}

/// Maximum number of characters kept of each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// For standard output, 200 to 200000.
    pub max_stdout_chars: usize,
    /// For standard error, 200 to 200000.
    pub max_stderr_chars: usize,
}

/// Ends of both streams of a command.
#[derive(Debug)]
pub(super) struct Tails {
    pub(super) stdout: Tail,
    pub(super) stderr: Tail,
}

impl Tails {
    pub(super) fn new(limits: OutputLimits) -> Self {
        Self { stdout: Tail::new(limits.max_stdout_chars), stderr: Tail::new(limits.max_stderr_chars) }
    }

    /// Total number of characters received.
    pub(super) fn chars(&self) -> u64 {
        self.stdout.chars() + self.stderr.chars()
    }

    pub(super) fn so_far(&self) -> BashOutput {
        let truncated = |tail: &Tail| Some(tail.dropped_chars()).filter(|dropped| *dropped > 0);
        BashOutput {
            stdout: self.stdout.text().to_owned(),
            stderr: self.stderr.text().to_owned(),
            exit_code: RUNNING,
            stdout_truncated_chars: truncated(&self.stdout),
            stderr_truncated_chars: truncated(&self.stderr),
        }
    }

    /// Final value, with the notice after standard error.
    pub(super) fn at_end(&mut self, exit_code: i32, notice: Option<&str>) -> BashOutput {
        self.stdout.finish();
        self.stderr.finish();
        let mut output = self.so_far();
        output.exit_code = exit_code;
        if let Some(notice) = notice {
            add_notice(&mut output.stderr, notice);
        }
        output
    }
}

/// Beginnings of both streams, for a single result at the end.
#[derive(Debug)]
pub(super) struct Heads {
    pub(super) stdout: Head,
    pub(super) stderr: Head,
}

impl Heads {
    pub(super) fn new(limits: OutputLimits) -> Self {
        Self { stdout: Head::new(limits.max_stdout_chars), stderr: Head::new(limits.max_stderr_chars) }
    }

    pub(super) fn at_end(mut self, exit_code: i32, notice: Option<&str>) -> BashOutput {
        let stdout = with_notice(&mut self.stdout, "stdout");
        let mut stderr = with_notice(&mut self.stderr, "stderr");
        if let Some(notice) = notice {
            add_notice(&mut stderr, notice);
        }
        BashOutput { stdout, stderr, exit_code, stdout_truncated_chars: None, stderr_truncated_chars: None }
    }
}

/// The text, followed by a notice about what is missing.
fn with_notice(head: &mut Head, stream: &str) -> String {
    head.finish();
    match head.dropped_chars() {
        0 => head.text().to_owned(),
        dropped => {
            format!("{}\n\n[{stream} truncated: {dropped} characters removed]", head.text().trim_end())
        }
    }
}

fn add_notice(text: &mut String, notice: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(notice);
}

/// Notice for an end that the command did not choose.
pub(super) fn notice_of(end: End, timeout_ms: u128) -> Option<String> {
    match end.reason {
        EndReason::Exited => None,
        EndReason::Timeout => Some(format!("Command timed out after {timeout_ms}ms.")),
        EndReason::Killed => Some("Command was ended by a signal.".to_owned()),
        EndReason::Oom => Some("Command was ended because the sandbox ran out of memory.".to_owned()),
        EndReason::Lost => Some("Command was lost: its sandbox went away.".to_owned()),
    }
}
