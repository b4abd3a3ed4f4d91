//! `sandboxd exec`: one command in a sandbox that exists.

use std::process::ExitCode;

use super::command::CommandArgs;
use super::interrupts::Interrupts;
use super::{DaemonArgs, sandboxes};
use crate::config::Config;

/// Run one command in an existing sandbox, which is woken if it is parked, and exit with its code
#[derive(Debug, Clone, clap::Args)]
pub struct ExecArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Id (`sbx_…`) or session key (`chat:…`)
    #[arg(value_name = "ID|SESSION")]
    name: String,
    #[command(flatten)]
    command: CommandArgs,
}

/// Runs the command; the exit code is the command's, or that of the signal that ended us.
pub async fn exec(args: ExecArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let sandbox = sandboxes::named(&client, &args.daemon, &args.name, config).await?;
    let request = args.command.request()?;
    let mut interrupts = Interrupts::listen()?;
    let code = args.command.run(&client, &sandbox.sandbox_id, &request, &mut interrupts).await?;
    Ok(ExitCode::from(code))
}
