//! Results of the tools.

use output_text::{Keep, Part};
use sandbox_api::command::EndReason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OutputPart;
use crate::{InvalidOutput, kept};

/// Exit code of a command that still runs.
pub const RUNNING: i32 = -1;

/// Exit code of a command whose time limit expired, as in coreutils' `timeout`.
pub const TIMED_OUT: i32 = 124;

/// Exit code of a cancelled command, as a shell reports an interrupt.
pub const CANCELLED: i32 = 130;

/// Result of `bash`: the state of a command, during the run or at its end. Each value is complete, not a difference
/// from the previous one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BashOutput {
    /// End of standard output, or the part that the call requested. At most as many characters as configured.
    pub stdout: String,
    /// The same of standard error, followed by a notice if the command did not end by itself.
    pub stderr: String,
    /// Exit code, as a shell would report it. -1 while the command runs.
    pub exit_code: i32,
    /// Number of characters of standard output that are missing in `stdout`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_truncated_chars: Option<u64>,
    /// Number of characters of standard error that are missing in `stderr`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_truncated_chars: Option<u64>,
}

/// Result of `readFile`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileContent {
    /// The text, followed by a notice if it is incomplete.
    pub content: String,
}

/// Result of `writeFile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    /// Always true. A failure is an error.
    pub success: bool,
}

/// Result of `sandboxUrl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxUrl {
    /// URL for the user's browser.
    pub url: String,
}

/// Maximum number of characters kept of each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// For standard output, 200 to 200000.
    pub max_stdout_chars: usize,
    /// For standard error, 200 to 200000.
    pub max_stderr_chars: usize,
}

/// The kept parts of a command's streams.
#[derive(Debug)]
pub struct Parts {
    /// Of standard output.
    pub stdout: Part,
    /// Of standard error.
    pub stderr: Part,
}

impl Parts {
    /// Creates the parts of empty streams.
    pub fn new(keep: Keep, limits: OutputLimits) -> Self {
        let OutputLimits { max_stdout_chars, max_stderr_chars } = limits;
        Self { stdout: Part::new(keep, max_stdout_chars), stderr: Part::new(keep, max_stderr_chars) }
    }

    /// Creates the parts that a call requests. `keep` applies if it does not choose.
    ///
    /// # Errors
    ///
    /// If it requests more characters of standard output than `limits` permits, or none.
    pub fn requested(
        requested: Option<OutputPart>,
        keep: Keep,
        limits: OutputLimits,
    ) -> Result<Self, InvalidOutput> {
        let OutputPart { keep: part, max_chars, max_tokens } = requested.unwrap_or_default();
        let max_stdout_chars = kept::requested_chars(max_chars, max_tokens, limits.max_stdout_chars)?;
        Ok(Self::new(part.map_or(keep, Keep::from), OutputLimits { max_stdout_chars, ..limits }))
    }

    /// Total number of characters received.
    pub fn chars(&self) -> u64 {
        self.stdout.chars() + self.stderr.chars()
    }

    /// Value of a command that still runs.
    pub fn so_far(&self) -> BashOutput {
        let truncated = |part: &Part| Some(part.dropped_chars()).filter(|dropped| *dropped > 0);
        BashOutput {
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
            exit_code: RUNNING,
            stdout_truncated_chars: truncated(&self.stdout),
            stderr_truncated_chars: truncated(&self.stderr),
        }
    }

    /// Final value, with the notice after standard error.
    pub fn at_end(&mut self, exit_code: i32, notice: Option<&str>) -> BashOutput {
        self.stdout.finish();
        self.stderr.finish();
        let mut output = self.so_far();
        output.exit_code = exit_code;
        if let Some(notice) = notice {
            output.add_notice(notice);
        }
        output
    }
}

impl BashOutput {
    /// Adds a line after standard error.
    pub fn add_notice(&mut self, notice: &str) {
        if !self.stderr.is_empty() && !self.stderr.ends_with('\n') {
            self.stderr.push('\n');
        }
        self.stderr.push_str(notice);
    }
}

/// Notice for an end that the command did not choose.
pub fn notice(reason: EndReason, timeout_ms: u128) -> Option<String> {
    match reason {
        EndReason::Exited => None,
        EndReason::Timeout => Some(format!("Command timed out after {timeout_ms}ms.")),
        EndReason::Killed => Some("Command was ended by a signal.".to_owned()),
        EndReason::Oom => Some("Command was ended because the sandbox ran out of memory.".to_owned()),
        EndReason::Lost => Some("Command was lost: its sandbox stopped.".to_owned()),
    }
}
