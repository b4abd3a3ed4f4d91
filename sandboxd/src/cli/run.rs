//! `sandboxd run`: one command in a session's sandbox, on the caller's terminal.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use sandbox_api::sandbox::{CreateSandbox, Resources};

use super::command::CommandArgs;
use super::interrupts::Interrupts;
use super::network::PolicyArgs;
use super::{DaemonArgs, text};
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
    let made =
        client.create_or_reconnect(&session).await.map_err(|error| args.daemon.explain(error, config))?;
    if !made.ignored.is_empty() {
        let ignored = made.ignored.join(", ");
        writeln!(io::stderr(), "sandboxd: the session's sandbox exists already; ignored: {ignored}")?;
    }
    let sandbox = made.sandbox_id;
    let code = args.command.run(&client, &sandbox, &request, &mut interrupts).await;
    if args.session.is_none() {
        client.delete(&sandbox).await.context("the sandbox could not be deleted")?;
    }
    code.map(ExitCode::from)
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
