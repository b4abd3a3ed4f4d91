//! `sandboxd run`: one command in a session's sandbox, on the caller's terminal.

use std::io::{self, Write};
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use sandbox_api::sandbox::{CreateSandbox, Resources};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};
use tokio::time::sleep;

use super::command::CommandArgs;
use super::interrupts::Interrupts;
use super::network::PolicyArgs;
use super::{DaemonArgs, sandboxes, text};
use crate::config::Config;

/// How long a signal during the create waits for the sandbox to be deletable. The daemon finishes a delete that it has
/// received, whether or not its client waits.
const ABANDON: Duration = Duration::from_secs(1);

const ABANDON_POLL: Duration = Duration::from_millis(50);

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
    let mut creating = pin!(create(&args, &client, &session, config));
    let created = tokio::select! {
        biased;
        signal = interrupts.next() => {
            if args.session.is_none() {
                abandon(&client, &session.session_key, creating).await?;
            }
            return Ok(ExitCode::from(signal));
        }
        created = &mut creating => created,
    };
    let code = match created {
        Ok(sandbox) => args.command.run(&client, &sandbox, &request, &mut interrupts).await,
        Err(error) => Err(error),
    };
    let deleted = match args.session {
        Some(_) => Ok(()),
        None => delete(&client, &session.session_key).await,
    };
    // What went wrong first is reported.
    let code = code?;
    deleted.context("the sandbox could not be deleted")?;
    Ok(ExitCode::from(code))
}

async fn create(
    args: &RunArgs,
    client: &Client,
    session: &CreateSandbox,
    config: &Config,
) -> anyhow::Result<SandboxId> {
    let made =
        client.create_or_reconnect(session).await.map_err(|error| args.daemon.explain(error, config))?;
    if !made.ignored.is_empty() {
        let ignored = made.ignored.join(", ");
        writeln!(io::stderr(), "sandboxd: the session's sandbox exists already; ignored: {ignored}")?;
    }
    Ok(made.sandbox_id)
}

/// Requests the delete of a sandbox that is still being created, and waits no longer than [`ABANDON`]. Meanwhile the
/// create keeps its connection: without one, the daemon might never read it, or read it later.
async fn abandon(
    client: &Client,
    session_key: &str,
    creating: Pin<&mut impl Future<Output = anyhow::Result<SandboxId>>>,
) -> io::Result<()> {
    let mut is_listed = false;
    let requested = async {
        while !is_listed {
            is_listed = matches!(sandboxes::find(client, session_key).await, Ok(Some(_)));
            sleep(ABANDON_POLL).await;
        }
        delete(client, session_key).await
    };
    let deleted = tokio::select! {
        deleted = requested => deleted.is_ok(),
        _ = creating => delete(client, session_key).await.is_ok(),
        () = sleep(ABANDON) => false,
    };
    if !deleted && !is_listed {
        writeln!(
            io::stderr(),
            "sandboxd: the sandbox may still be created; to remove it: sandboxd stop {session_key}"
        )?;
    }
    Ok(())
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
