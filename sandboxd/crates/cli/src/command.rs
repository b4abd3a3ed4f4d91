//! The common part of `sandboxd run` and `sandboxd exec`: the command's options, its output and its exit code.

use std::io::{self, Read, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use rustix::io::Errno;
use sandbox_api::command::{EndReason, KillCommand, Record, StartCommand};
use sandbox_api::{CommandId, ErrorCode, SandboxId};
use sandbox_client::{Client, Error, Records};

use super::interrupts::Interrupts;
use super::{exit_code, output};
use sandboxd_model::limits::MAX_STDIN_BYTES;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct CommandArgs {
    /// Environment variable; `NAME` alone passes on the value from this environment
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Working directory, relative to the workspace
    #[arg(long)]
    cwd: Option<String>,
    /// Time limit of the command, in seconds
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Send standard input to the command
    #[arg(long, short = 'i')]
    stdin: bool,
    /// Print the records as the API sends them, one JSON object per line
    #[arg(long)]
    json: bool,
    /// A single argument is a bash script; several are a program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

impl CommandArgs {
    /// The request for the command, with an id by which it can be killed if a signal arrives.
    pub(super) fn request(&self) -> anyhow::Result<(CommandId, StartCommand)> {
        let id = CommandId::random()?;
        let request = StartCommand {
            command_id: Some(id.to_string()),
            cwd: self.cwd.clone(),
            env: Some(variables(&self.env, |name| std::env::var(name).ok())),
            stdin_base64: self.stdin.then(read_stdin).transpose()?,
            timeout_ms: Some(self.timeout.saturating_mul(1000)),
            ..program(&self.command)?
        };
        Ok((id, request))
    }

    /// Runs the command until it ends or a signal arrives. Returns the exit code of the command or of the signal.
    pub(super) async fn run(
        &self,
        client: &Client,
        sandbox: &SandboxId,
        (id, request): &(CommandId, StartCommand),
        interrupts: &mut Interrupts,
    ) -> anyhow::Result<u8> {
        tokio::select! {
            biased;
            signal = interrupts.next() => kill(client, sandbox, id).await.map(|()| signal),
            code = async { forward_output(&mut client.run(sandbox, request).await?, self.json).await } => code,
        }
    }
}

/// The start of a command: a single word is a bash script, several are a program and its arguments.
pub(super) fn program(words: &[String]) -> anyhow::Result<StartCommand> {
    let (script, cmd, args) = match words {
        [script] => (Some(script.clone()), None, None),
        [program, rest @ ..] => (None, Some(program.clone()), Some(rest.to_vec())),
        [] => anyhow::bail!("no command given"),
    };
    Ok(StartCommand { script, cmd, args, ..StartCommand::default() })
}

/// Writes a command's output to our own output, and returns its exit code.
pub(super) async fn forward_output(records: &mut Records, is_json: bool) -> anyhow::Result<u8> {
    while let Some(record) = records.next().await {
        let record = record?;
        match is_json {
            true => writeln!(io::stdout(), "{}", log_text::escape_json(&serde_json::to_string(&record)?))?,
            false => output::write(&record)?,
        }
        if let Record::Exit { exit_code: code, reason, .. } = record {
            if reason != EndReason::Exited && !is_json {
                writeln!(io::stderr(), "sandboxd: the command ended: {reason:?}")?;
            }
            return Ok(exit_code::of_command(code));
        }
    }
    anyhow::bail!("the stream ended before the command")
}

/// The exit code for a program that could not be started. `None` for any other error.
pub(super) fn start_failure_code(error: &Error) -> Option<u8> {
    let Error::Refused { body, .. } = error else { return None };
    let step = body.details.get("step")?.as_str()?;
    let errno = body.details.get("errno")?.as_i64()?;
    let is_missing = step == "exec" && errno == i64::from(Errno::NOENT.raw_os_error());
    Some(if is_missing { exit_code::NOT_FOUND } else { exit_code::NOT_EXECUTABLE })
}

async fn kill(client: &Client, sandbox: &SandboxId, command: &CommandId) -> anyhow::Result<()> {
    match client.kill(sandbox, command, &KillCommand::default()).await {
        // The signal arrived before the command was started.
        Err(error) if error.code() == Some(ErrorCode::NotFound) => Ok(()),
        killed => Ok(killed.map(drop)?),
    }
}

/// Environment variables of the command. A name without a value that is not set here either is skipped, as by `docker
/// run`.
pub(super) fn variables(
    given: &[String],
    value_here: impl Fn(&str) -> Option<String>,
) -> std::collections::BTreeMap<String, String> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) => Some((name.to_owned(), value.to_owned())),
        None => value_here(text).map(|value| (text.clone(), value)),
    };
    given.iter().filter_map(pair).collect()
}

fn read_stdin() -> anyhow::Result<String> {
    let mut content = Vec::new();
    io::stdin().lock().take(MAX_STDIN_BYTES as u64 + 1).read_to_end(&mut content)?;
    anyhow::ensure!(
        content.len() <= MAX_STDIN_BYTES,
        "standard input must be at most {MAX_STDIN_BYTES} bytes"
    );
    Ok(BASE64_STANDARD.encode(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_the_given_value_or_the_one_of_this_environment() {
        let given = ["A=1", "B=x=y", "C", "ABSENT", "D="].map(str::to_owned);
        let value_here = |name: &str| (name == "C").then(|| "here".to_owned());
        let found: Vec<_> = variables(&given, value_here).into_iter().collect();
        let expected = [("A", "1"), ("B", "x=y"), ("C", "here"), ("D", "")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
