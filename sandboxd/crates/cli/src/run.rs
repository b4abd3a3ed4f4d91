//! `sandboxd run`: runs one command in a session's sandbox or in a temporary one.

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
use sandboxd_config::Config;

/// How long to wait for the sandbox to become deletable after a signal during its creation. The daemon finishes a
/// deletion that it has received, whether or not the client waits.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(1);

const ABANDON_POLL: Duration = Duration::from_millis(50);

/// Run one command in a sandbox and exit with its code
#[derive(Debug, Clone, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Session whose sandbox is used and kept; without it, a sandbox is created for this command and then deleted
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

/// Runs the command. The exit code is that of the command, or of the signal that ended this program.
pub(crate) async fn run(args: RunArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let request = args.command.request()?;
    // From here on, a signal must not end the program before the sandbox that it created is deleted. SIGQUIT still does.
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
    // The first error is reported.
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
    let created =
        client.create_or_reconnect(session).await.map_err(|error| args.daemon.explain(error, config))?;
    if !created.ignored.is_empty() {
        let ignored = created.ignored.join(", ");
        writeln!(io::stderr(), "sandboxd: the session's sandbox already exists; ignored: {ignored}")?;
    }
    Ok(created.sandbox_id)
}

/// Deletes a sandbox that is still being created, and waits at most [`ABANDON_TIMEOUT`]. The connection of the create
/// request stays open meanwhile, because the daemon may not have read that request yet.
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
        () = sleep(ABANDON_TIMEOUT) => false,
    };
    if !deleted && !is_listed {
        writeln!(
            io::stderr(),
            "sandboxd: the sandbox may still be created; to remove it: sandboxd stop {session_key}"
        )?;
    }
    Ok(())
}

/// Deletes the sandbox of a session, even if the response to its creation was not received.
async fn delete(client: &Client, session_key: &str) -> Result<(), Error> {
    let Some(sandbox) = sandboxes::find(client, session_key).await? else { return Ok(()) };
    match client.delete(&sandbox.sandbox_id).await {
        Err(error) if error.code() == Some(ErrorCode::NotFound) => Ok(()),
        deleted => deleted.map(drop),
    }
}

fn session_of(args: &RunArgs) -> CreateSandbox {
    let temporary = || format!("tmp:run-{}", uuid::Uuid::new_v4().simple());
    let resources = Resources { memory_mb: args.memory, ..Resources::default() };
    CreateSandbox {
        session_key: args.session.clone().unwrap_or_else(temporary),
        resources: args.memory.map(|_| resources),
        network: args.policy.network(args.network.clone()),
        ..CreateSandbox::default()
    }
}
