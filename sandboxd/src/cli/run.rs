//! `sandboxd run`: one command in a session's sandbox, on the caller's terminal.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::{CreateSandbox, Resources};
use sandbox_api::{CommandId, ErrorCode};
use sandbox_client::{Client, Error};

use super::command::CommandArgs;
use super::interrupts::Interrupts;
use super::network::PolicyArgs;
use super::{DaemonArgs, sandboxes, text};
use crate::config::Config;

/// Run one command in a sandbox and exit with its code
#[derive(Debug, Clone, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Session whose sandbox is used and kept; without it a sandbox is created for this command only
    #[arg(long, short)]
    session: Option<String>,
    /// Memory of a new sandbox, such as 512m or 4g
    #[arg(long, short, value_parser = text::parse_mib)]
    memory: Option<u64>,
    /// Network of a new sandbox: default, allowlist, none or open
    #[arg(long, value_name = "MODE")]
    network: Option<String>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    command: CommandArgs,
}

/// Runs the command; the exit code is the command's, or that of the signal that ended us.
pub async fn run(args: RunArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let request = args.command.request()?;
    // From here on a signal must not end us before what we made is gone. SIGQUIT still does.
    let mut interrupts = Interrupts::listen()?;
    let session = session_of(&args);
    let code = run_in(&args, &client, &session, &request, &mut interrupts, config).await;
    let deleted = match args.session {
        Some(_) => Ok(()),
        None => delete(&client, &session.session_key).await,
    };
    // What went wrong first is reported.
    let code = code?;
    deleted.context("the sandbox could not be deleted")?;
    Ok(ExitCode::from(code))
}

async fn run_in(
    args: &RunArgs,
    client: &Client,
    session: &CreateSandbox,
    request: &(CommandId, StartCommand),
    interrupts: &mut Interrupts,
    config: &Config,
) -> anyhow::Result<u8> {
    let made =
        client.create_or_reconnect(session).await.map_err(|error| args.daemon.explain(error, config))?;
    if !made.ignored.is_empty() {
        let ignored = made.ignored.join(", ");
        writeln!(io::stderr(), "sandboxd: the session's sandbox exists already; ignored: {ignored}")?;
    }
    args.command.run(client, &made.sandbox_id, request, interrupts).await
}

/// Deletes the sandbox of a session, also if its create was not heard to succeed.
async fn delete(client: &Client, session_key: &str) -> Result<(), Error> {
    let Some(sandbox) = sandboxes::find(client, session_key).await? else { return Ok(()) };
    match client.delete(&sandbox.sandbox_id).await {
        Err(error) if error.code() == Some(ErrorCode::NotFound) => Ok(()),
        deleted => deleted.map(drop),
    }
}

fn session_of(args: &RunArgs) -> CreateSandbox {
    let own = || format!("tmp:run-{}", uuid::Uuid::new_v4().simple());
    let resources = Resources { memory_mb: args.memory, ..Resources::default() };
    CreateSandbox {
        session_key: args.session.clone().unwrap_or_else(own),
        resources: args.memory.map(|_| resources),
        network: args.policy.network(args.network.clone()),
        ..CreateSandbox::default()
    }
}
