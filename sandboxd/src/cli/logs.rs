//! `sandboxd logs`: what a command of a sandbox wrote, on the caller's terminal.

use std::process::ExitCode;

use anyhow::Context;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use sandbox_api::command::Record;
use sandbox_api::sandbox::SandboxState;
use sandbox_api::{CommandId, ErrorCode, SandboxId};
use sandbox_client::{Client, Error};

use super::{DaemonArgs, exit_code, output, sandboxes};
use crate::config::Config;

/// Print what a command wrote, each output to its own
#[derive(Debug, Clone, clap::Args)]
pub struct LogsArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Go on to the command's end, also across restarts of the daemon
    #[arg(long, short)]
    follow: bool,
    /// Exit with the command's own exit code
    #[arg(long)]
    exit_code: bool,
    /// The newest command, as where none is named
    #[arg(long, conflicts_with = "command")]
    last: bool,
    /// Id (`sbx_…`) or session key (`chat:…`)
    #[arg(value_name = "ID|SESSION")]
    name: String,
    /// Id (`cmd_…`)
    #[arg(value_name = "COMMAND")]
    command: Option<CommandId>,
}

type Records = BoxStream<'static, Result<Record, Error>>;

/// Prints it; the exit code is 0 where all of it could be read, unless the command's own was asked for.
pub async fn logs(args: LogsArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let explain = |error| args.daemon.explain(error, config);
    let sandbox = sandboxes::find(&client, &args.name).await.map_err(explain)?;
    let sandbox = sandbox.with_context(|| format!("{}: there is no such sandbox", args.name))?;
    // To look would wake it, and find nothing.
    anyhow::ensure!(
        sandbox.state != SandboxState::Parked,
        "{}: it is parked, and what its commands wrote went with its container",
        args.name
    );
    anyhow::ensure!(
        sandbox.state != SandboxState::Lost,
        "{}: it is lost: its files are missing on the engine",
        args.name
    );
    let id = sandbox.sandbox_id;
    let command = match args.command {
        Some(command) => command,
        None => newest(&client, &id).await?,
    };
    let records: Records = match args.follow {
        true => client.follow(&id, &command, 0).boxed(),
        false => client.logs(&id, &command, 0, false).await.map_err(|error| gone(error, &command))?.boxed(),
    };
    let end = match print(records).await {
        // Whoever read it has enough.
        Err(error) if output::is_broken_pipe(&error) => return Ok(ExitCode::SUCCESS),
        end => end.map_err(|error| match error.downcast::<Error>() {
            Ok(error) => gone(error, &command),
            Err(error) => error,
        })?,
    };
    match (args.exit_code, end) {
        (false, _) => Ok(ExitCode::SUCCESS),
        (true, Some(code)) => Ok(ExitCode::from(exit_code::of_command(code))),
        (true, None) => anyhow::bail!("{command} still runs and has no exit code; `-f` waits for it"),
    }
}

async fn newest(client: &Client, sandbox: &SandboxId) -> anyhow::Result<CommandId> {
    let newest = client.commands(sandbox, 1).await?.commands.into_iter().next();
    Ok(newest.context("no command has run in it")?.command_id)
}

/// Writes everything; the exit code, where the command has ended.
async fn print(mut records: Records) -> anyhow::Result<Option<i32>> {
    let mut end = None;
    while let Some(record) = records.try_next().await? {
        output::write(&record)?;
        if let Record::Exit { exit_code, .. } = record {
            end = Some(exit_code);
        }
    }
    Ok(end)
}

fn gone(error: Error, command: &CommandId) -> anyhow::Error {
    if error.code() == Some(ErrorCode::NotFound) {
        let words = format!("{command}: there is no such command, or what it wrote is not kept any more");
        return anyhow::Error::new(error).context(words);
    }
    error.into()
}
