//! `sandboxd logs`: prints the output of a command.

use std::process::ExitCode;

use anyhow::Context;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use sandbox_api::command::Record;
use sandbox_api::sandbox::SandboxState;
use sandbox_api::{CommandId, ErrorCode, SandboxId};
use sandbox_client::{Client, Error};

use super::{DaemonArgs, exit_code, output, sandboxes};
use sandboxd_config::Config;

/// Print the output of a command: its standard output to ours, and its standard error to ours
#[derive(Debug, Clone, clap::Args)]
pub struct LogsArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print new output until the command ends, even if the daemon restarts
    #[arg(long, short)]
    follow: bool,
    /// Exit with the command's own exit code
    #[arg(long)]
    exit_code: bool,
    /// Use the newest command, which is also the default
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

/// Prints the output. The exit code is 0 if all of it could be read, or the command's own with `--exit-code`.
pub(crate) async fn logs(args: LogsArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let explain = |error| args.daemon.explain(error, config);
    let sandbox = sandboxes::find(&client, &args.name).await.map_err(explain)?;
    let sandbox = sandbox.with_context(|| format!("{}: no such sandbox", args.name))?;
    // A request would wake the sandbox and find no output.
    anyhow::ensure!(
        sandbox.state != SandboxState::Parked,
        "{}: the sandbox is parked; the output of its commands was removed with its container",
        args.name
    );
    anyhow::ensure!(
        sandbox.state != SandboxState::Lost,
        "{}: the sandbox is lost: its files are missing on the engine",
        args.name
    );
    let id = sandbox.sandbox_id;
    let command = match args.command {
        Some(command) => command,
        None => newest(&client, &id).await?,
    };
    let records: Records = match args.follow {
        true => client.follow(&id, &command, 0).boxed(),
        false => {
            let records = client.logs(&id, &command, 0, false).await;
            records.map_err(|error| explain_missing(error, &command))?.boxed()
        }
    };
    let exit_code = match print(records).await {
        // The reader of the output has closed its end, which is not an error.
        Err(error) if output::is_broken_pipe(&error) => return Ok(ExitCode::SUCCESS),
        printed => printed.map_err(|error| match error.downcast::<Error>() {
            Ok(error) => explain_missing(error, &command),
            Err(error) => error,
        })?,
    };
    match (args.exit_code, exit_code) {
        (false, _) => Ok(ExitCode::SUCCESS),
        (true, Some(code)) => Ok(ExitCode::from(exit_code::of_command(code))),
        (true, None) => anyhow::bail!("{command} is still running; use `-f` to wait for its exit code"),
    }
}

async fn newest(client: &Client, sandbox: &SandboxId) -> anyhow::Result<CommandId> {
    let newest = client.commands(sandbox, 1).await?.commands.into_iter().next();
    Ok(newest.context("no command has run in this sandbox")?.command_id)
}

/// Writes all output. Returns the exit code if the command has ended.
async fn print(mut records: Records) -> anyhow::Result<Option<i32>> {
    let mut exited = None;
    while let Some(record) = records.try_next().await? {
        output::write(&record)?;
        if let Record::Exit { exit_code, .. } = record {
            exited = Some(exit_code);
        }
    }
    Ok(exited)
}

fn explain_missing(error: Error, command: &CommandId) -> anyhow::Error {
    if error.code() == Some(ErrorCode::NotFound) {
        let explanation = format!("{command}: no such command, or its output is no longer kept");
        return anyhow::Error::new(error).context(explanation);
    }
    error.into()
}
