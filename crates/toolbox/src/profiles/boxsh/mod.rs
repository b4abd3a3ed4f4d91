//! The nine tools of boxsh 4.1, an MCP server with a shell.
//!
//! An exit code other than 0 is an error here. Differences from boxsh: a command that exceeds its time limit keeps its
//! output, and may have a time limit in fractions of a second; a long output keeps its beginning and its end; files are
//! those of the workspace.

mod files;
mod schema;
mod terminals;

use output_text::{Excerpt, Keep};
use sandbox_api::SandboxId;
use sandbox_api::command::{EndReason, StartCommand};
use serde_json::{Map, Value};

pub(super) use schema::definitions;

use crate::bash::{DEFAULT_TIMEOUT, MAX_STDERR_CHARS, MAX_STDOUT_CHARS};
use crate::run::Stream;
use crate::toolbox::{Arguments, Call, Toolbox};
use crate::{Error, Reply};

/// Exit code of a command whose time limit expired.
const TIMED_OUT: i32 = -1;

/// Maximum time limit of a command in seconds: a week.
const MAX_TIMEOUT_S: f64 = 604_800.0;

impl Toolbox {
    /// Executes a call. `None` if there is no such tool.
    pub(crate) async fn boxsh(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        call: &Call<'_>,
    ) -> Option<Result<Reply, Error>> {
        let name = schema::NAMES.into_iter().find(|known| *known == name)?;
        let arguments = Arguments::new(name, arguments);
        let act = |sandbox: SandboxId| {
            let arguments = &arguments;
            async move { self.boxsh_in(&sandbox, name, arguments, call).await }
        };
        Some(self.in_sandbox(None, call, act).await)
    }

    async fn boxsh_in(
        &self,
        sandbox: &SandboxId,
        name: &str,
        arguments: &Arguments,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        match name {
            "bash" => self.boxsh_bash(sandbox, arguments.parse()?, call).await,
            "read" => self.boxsh_read(sandbox, arguments.parse()?).await,
            "write" => self.boxsh_write(sandbox, arguments.parse()?).await,
            "edit" => self.boxsh_edit(sandbox, arguments.parse()?).await,
            "run_in_terminal" => self.boxsh_run_in_terminal(sandbox, arguments.parse()?, call).await,
            "send_to_terminal" => self.boxsh_send_to_terminal(sandbox, arguments.parse()?, call).await,
            "get_terminal_output" => self.boxsh_get_terminal_output(sandbox, arguments.parse()?, call).await,
            "kill_terminal" => self.boxsh_kill_terminal(sandbox, arguments.parse()?).await,
            _ => self.boxsh_list_terminals(sandbox, arguments.parse()?).await,
        }
    }

    async fn boxsh_bash(
        &self,
        sandbox: &SandboxId,
        input: schema::Bash,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let request = StartCommand {
            script: Some(input.command),
            timeout_ms: Some(timeout_ms_of(input.timeout)?),
            ..StartCommand::default()
        };
        let mut stdout = Excerpt::new(Keep::Both, MAX_STDOUT_CHARS);
        let mut stderr = Excerpt::new(Keep::Both, MAX_STDERR_CHARS);
        let end = self
            .run_to_end(sandbox, &request, call, |stream, bytes| match stream {
                Stream::Stdout => stdout.push(bytes),
                Stream::Stderr => stderr.push(bytes),
            })
            .await?;
        let is_late = end.reason == EndReason::Timeout;
        if is_late {
            stderr.push(b"timeout");
        }
        stdout.finish();
        stderr.finish();
        let (stdout, stderr) = (stdout.shown(), stderr.shown());
        let result = schema::Ran {
            exit_code: if is_late { TIMED_OUT } else { end.exit_code },
            stdout_truncated: (!stdout.omitted.is_nothing()).then_some(true),
            stderr_truncated: (!stderr.omitted.is_nothing()).then_some(true),
            stdout: stdout.with_notice(None),
            stderr: stderr.with_notice(None),
            duration_ms: end.duration_ms,
        };
        let mut text = result.stdout.clone();
        if !text.is_empty() && !text.ends_with('\n') && !result.stderr.is_empty() {
            text.push('\n');
        }
        text.push_str(&result.stderr);
        Ok(Reply { is_error: result.exit_code != 0, ..Reply::new(text, &result) })
    }
}

fn timeout_ms_of(seconds: Option<f64>) -> Result<u64, Error> {
    let Some(seconds) = seconds else { return Ok(DEFAULT_TIMEOUT.as_millis() as u64) };
    if !(seconds > 0.0 && seconds <= MAX_TIMEOUT_S) {
        let problem = format!("must be more than 0 and at most {MAX_TIMEOUT_S} seconds");
        return Err(Error::Argument { field: "timeout", problem });
    }
    Ok((seconds * 1000.0).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_has_a_resolution_of_milliseconds() {
        assert_eq!(timeout_ms_of(Some(0.5)).unwrap(), 500);
        assert_eq!(timeout_ms_of(Some(0.0001)).unwrap(), 1);
        assert_eq!(timeout_ms_of(None).unwrap(), 120_000);
        for wrong in [0.0, -1.0, -2.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(timeout_ms_of(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
