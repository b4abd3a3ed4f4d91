//! `sandboxd exec`: runs one command in an existing sandbox.

use std::process::ExitCode;

use super::command::CommandArgs;
use super::interrupts::Interrupts;
use super::{DaemonArgs, sandboxes};
use sandboxd_config::Config;

/// Run one command in an existing sandbox and exit with its code; wakes a parked sandbox
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

/// Runs the command. The exit code is that of the command, or of the signal that ended this program.
pub(crate) async fn exec(args: ExecArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let sandbox = sandboxes::require(&client, &args.daemon, &args.name, config).await?;
    let request = args.command.request()?;
    let mut interrupts = Interrupts::listen()?;
    let code = args.command.run(&client, &sandbox.sandbox_id, &request, &mut interrupts).await?;
    Ok(ExitCode::from(code))
}
