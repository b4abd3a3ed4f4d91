//! `bash_exec` and `bash_exec_batch`.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::{StreamExt, TryStreamExt};
use output_text::{Excerpt, Keep};
use sandbox_api::SandboxId;
use sandbox_api::command::{EndReason, StartCommand};
use serde::Serialize;
use tokio::time::Instant;

use super::fault::Fault;
use super::schema::{self, MAX_SCRIPTS};
use crate::Error;
use crate::bash::{MAX_STDERR_CHARS, MAX_STDOUT_CHARS};
use crate::error::is_gone;
use crate::error::shortened;
use crate::run::{End, Stream};
use crate::toolbox::{Call, Toolbox};

/// Time limit of a call, by default and at most.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_TIMEOUT: Duration = Duration::from_secs(300);

/// Number of scripts of a read-only batch that run at once.
const AT_ONCE: usize = 16;

/// Exit code of a script that the time limit ended, or that did not start because of it.
const TIMED_OUT: i32 = -1;

/// File in the sandbox with the directory in which the last script ended. It is lost when the sandbox is parked.
const CWD_FILE: &str = "/tmp/.sql-fs-cwd";

/// Result of `bash_exec`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ran {
    stdout: String,
    stderr: String,
    exit_code: i32,
    exit_signal: Option<String>,
    timed_out: bool,
    duration_ms: u64,
}

/// Result of `bash_exec` if nothing ran.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NotRun {
    stdout: &'static str,
    stderr: String,
    exit_code: i32,
}

/// Result of `bash_exec_batch`.
#[derive(Debug, Serialize)]
pub(super) struct Batch {
    results: Vec<Member>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    id: String,
    stdout: String,
    stderr: String,
    exit_code: i32,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A script, and its share of the result.
struct Script<'a> {
    text: &'a str,
    is_read_only: bool,
    timeout: Duration,
    /// The result has this fraction of the characters of a single script.
    share: usize,
}

impl Toolbox {
    pub(super) async fn sql_fs_exec(&self, input: schema::Exec, call: &Call<'_>) -> Result<Ran, Fault> {
        let trace = if input.debug == Some(true) { "set -x\n" } else { "" };
        let text = format!("{trace}{}", input.script);
        let script = Script {
            text: &text,
            is_read_only: input.read_only.unwrap_or(false),
            timeout: timeout_of(input.timeout),
            share: 1,
        };
        let run = |sandbox| {
            let script = &script;
            async move { self.run_script(&sandbox, script, call).await }
        };
        Ok(self.in_sandbox(Some(&input.id), call, run).await?)
    }

    /// Runs scripts one after another, or several at once if they only read.
    pub(super) async fn sql_fs_exec_batch(
        &self,
        input: schema::ExecBatch,
        call: &Call<'_>,
    ) -> Result<Batch, Fault> {
        if !(1..=MAX_SCRIPTS).contains(&input.scripts.len()) {
            return Err(Fault::new(
                "INVALID_INPUT",
                format!("`scripts` must have 1 to {MAX_SCRIPTS} entries"),
            ));
        }
        let until = Instant::now() + timeout_of(input.timeout);
        let run = |sandbox: SandboxId| {
            let input = &input;
            async move { self.run_batch(&sandbox, input, until, call).await }
        };
        Ok(Batch { results: self.in_sandbox(Some(&input.id), call, run).await? })
    }

    async fn run_batch(
        &self,
        sandbox: &SandboxId,
        input: &schema::ExecBatch,
        until: Instant,
        call: &Call<'_>,
    ) -> Result<Vec<Member>, Error> {
        let is_read_only = input.read_only.unwrap_or(false);
        let share = input.scripts.len();
        let mut runs: Vec<BoxFuture<'_, Result<Member, Error>>> = Vec::with_capacity(share);
        for schema::Script { id, script } in &input.scripts {
            let run = async move {
                let timeout = until.saturating_duration_since(Instant::now());
                if timeout.is_zero() {
                    return Ok(Member::late(id));
                }
                let script = Script { text: script, is_read_only, timeout, share };
                match self.run_script(sandbox, &script, call).await {
                    Ok(ran) => Ok(Member::ended(id, ran)),
                    Err(Error::Client { source }) if is_gone(&source) => Err(source.into()),
                    Err(error) => Ok(Member::failed(id, &error)),
                }
            };
            runs.push(run.boxed());
        }
        let at_once = if is_read_only { AT_ONCE } else { 1 };
        futures::stream::iter(runs).buffered(at_once).try_collect().await
    }

    async fn run_script(
        &self,
        sandbox: &SandboxId,
        script: &Script<'_>,
        call: &Call<'_>,
    ) -> Result<Ran, Error> {
        let request = StartCommand {
            script: Some(in_last_directory(script.text)),
            read_only: script.is_read_only.then_some(true),
            timeout_ms: Some(u64::try_from(script.timeout.as_millis()).unwrap_or(u64::MAX).max(1)),
            ..StartCommand::default()
        };
        let excerpt = |max_chars: usize| Excerpt::new(Keep::Both, max_chars / script.share);
        let (mut stdout, mut stderr) = (excerpt(MAX_STDOUT_CHARS), excerpt(MAX_STDERR_CHARS));
        let end = self
            .run_to_end(sandbox, &request, call, |stream, bytes| match stream {
                Stream::Stdout => stdout.push(bytes),
                Stream::Stderr => stderr.push(bytes),
            })
            .await?;
        Ok(Ran::new(end, stdout, stderr))
    }
}

impl Ran {
    fn new(end: End, mut stdout: Excerpt, mut stderr: Excerpt) -> Self {
        let timed_out = end.reason == EndReason::Timeout;
        if timed_out {
            stderr.push(b"timeout");
        }
        stdout.finish();
        stderr.finish();
        Self {
            stdout: stdout.shown().with_notice(None),
            stderr: stderr.shown().with_notice(None),
            exit_code: if timed_out { TIMED_OUT } else { end.exit_code },
            exit_signal: end.signal,
            timed_out,
            duration_ms: end.duration_ms,
        }
    }
}

impl Member {
    fn ended(id: &str, ran: Ran) -> Self {
        let error = ran.timed_out.then(|| "timeout".to_owned());
        let Ran { stdout, stderr, exit_code, duration_ms, .. } = ran;
        Self { id: id.to_owned(), stdout, stderr, exit_code, duration_ms, error }
    }

    /// No time was left to run the script.
    fn late(id: &str) -> Self {
        Self { exit_code: TIMED_OUT, ..Self::without_run(id, "timeout".into()) }
    }

    fn failed(id: &str, error: &Error) -> Self {
        Self { exit_code: 1, ..Self::without_run(id, shortened(&error.to_string())) }
    }

    fn without_run(id: &str, error: String) -> Self {
        let none = String::new;
        Self {
            id: id.to_owned(),
            stdout: none(),
            stderr: none(),
            exit_code: 0,
            duration_ms: 0,
            error: Some(error),
        }
    }
}

/// The result if a script could not be run.
pub(super) fn not_run(fault: &Fault) -> NotRun {
    NotRun { stdout: "", stderr: fault.message().to_owned(), exit_code: 1 }
}

fn timeout_of(ms: Option<u64>) -> Duration {
    ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis).min(MAX_TIMEOUT)
}

/// Runs a script in the directory in which the last one ended. A script has its own lines, because it may begin with a
/// comment or be incomplete.
fn in_last_directory(script: &str) -> String {
    format!(
        "cd -- \"$(cat {CWD_FILE} 2>/dev/null)\" 2>/dev/null\ntrap '(pwd >{CWD_FILE}) 2>/dev/null' EXIT\n:\n{script}\n"
    )
}
