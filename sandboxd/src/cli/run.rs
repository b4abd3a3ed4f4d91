//! `sandboxd run`: one command in a session's sandbox, on the caller's terminal.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use anyhow::Context;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use sandbox_api::command::{KillCommand, Record, StartCommand};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::{CommandId, ErrorCode, SandboxId};
use sandbox_client::{Client, Records};

use super::interrupts::Interrupts;
use super::{DaemonArgs, output};
use crate::config::Config;
use crate::model::limits::MAX_STDIN_BYTES;

/// Run one command in a sandbox and exit with its code
#[derive(Debug, Clone, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Session whose sandbox is used, and kept; without it a sandbox is made for this command only
    #[arg(long, short)]
    session: Option<String>,
    /// Working directory, relative to the workspace
    #[arg(long)]
    cwd: Option<String>,
    /// Seconds until the command is ended
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Send standard input to the command
    #[arg(long, short = 'i')]
    stdin: bool,
    /// One argument is a script for bash; more are a program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Runs the command; the exit code is the command's, or that of the signal that ended us.
pub async fn run(args: RunArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let command = CommandId::random()?;
    let wish = StartCommand { command_id: Some(command.to_string()), ..wish_of(&args)? };
    // From here on a signal must not end us before what we made is gone. SIGQUIT still does.
    let mut interrupts = Interrupts::listen()?;
    let own = format!("tmp:run-{}", uuid::Uuid::new_v4().simple());
    let session_key = args.session.clone().unwrap_or(own);
    let session = CreateSandbox { session_key, ..CreateSandbox::default() };
    let made =
        client.create_or_reconnect(&session).await.map_err(|error| args.daemon.explain(error, config))?;
    let sandbox = made.sandbox_id;
    let code = tokio::select! {
        biased;
        signal = interrupts.next() => end(&client, &sandbox, &command).await.map(|()| signal),
        code = run_in(&client, &sandbox, &wish) => code,
    };
    if args.session.is_none() {
        client.delete(&sandbox).await.context("the sandbox could not be deleted")?;
    }
    code.map(ExitCode::from)
}

async fn run_in(client: &Client, sandbox: &SandboxId, wish: &StartCommand) -> anyhow::Result<u8> {
    pass_on(&mut client.run(sandbox, wish).await?).await
}

async fn end(client: &Client, sandbox: &SandboxId, command: &CommandId) -> anyhow::Result<()> {
    match client.kill(sandbox, command, &KillCommand::default()).await {
        // The signal came before the command was started.
        Err(error) if error.code() == Some(ErrorCode::NotFound) => Ok(()),
        killed => Ok(killed.map(drop)?),
    }
}

fn wish_of(args: &RunArgs) -> anyhow::Result<StartCommand> {
    let (script, cmd, arguments) = match args.command.as_slice() {
        [script] => (Some(script.clone()), None, None),
        [program, rest @ ..] => (None, Some(program.clone()), Some(rest.to_vec())),
        [] => anyhow::bail!("no command given"),
    };
    Ok(StartCommand {
        script,
        cmd,
        args: arguments,
        cwd: args.cwd.clone(),
        stdin_base64: args.stdin.then(read_stdin).transpose()?,
        timeout_ms: Some(args.timeout.saturating_mul(1000)),
        ..StartCommand::default()
    })
}

fn read_stdin() -> anyhow::Result<String> {
    let mut content = Vec::new();
    io::stdin().lock().take(MAX_STDIN_BYTES as u64 + 1).read_to_end(&mut content)?;
    anyhow::ensure!(
        content.len() <= MAX_STDIN_BYTES,
        "standard input is larger than {MAX_STDIN_BYTES} bytes"
    );
    Ok(BASE64_STANDARD.encode(content))
}

/// Writes the command's output to our own, and returns its exit code.
async fn pass_on(records: &mut Records) -> anyhow::Result<u8> {
    while let Some(record) = records.next().await {
        let record = record?;
        output::write(&record)?;
        if let Record::Exit { exit_code, reason, .. } = record {
            if reason != sandbox_api::command::EndReason::Exited {
                writeln!(io::stderr(), "sandboxd: the command ended: {reason:?}")?;
            }
            return Ok(output::code(exit_code));
        }
    }
    anyhow::bail!("the stream ended before the command did")
}
