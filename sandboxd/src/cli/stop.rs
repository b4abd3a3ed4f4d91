//! `sandboxd stop` and `sandboxd park`: sandboxes by id or session key.

use std::process::ExitCode;

use super::act::{self, Act, Outcome};
use super::{DaemonArgs, sandboxes};
use crate::config::Config;

/// Delete sandboxes with their files
#[derive(Debug, Clone, clap::Args)]
pub struct StopArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// Do not ask, as is never done without a terminal
    #[arg(long, short)]
    yes: bool,
}

/// Remove containers and keep the files; the next use brings them back
#[derive(Debug, Clone, clap::Args)]
pub struct ParkArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// Also where commands run, which ends them
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, clap::Args)]
struct NamedArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print what became of each as JSON
    #[arg(long)]
    json: bool,
    /// Ids (`sbx_…`) or session keys (`chat:…`)
    #[arg(required = true, value_name = "ID|SESSION")]
    names: Vec<String>,
}

/// Deletes the named sandboxes, on a terminal after asking.
pub async fn stop(args: StopArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let count = args.named.names.len();
    let what = if count == 1 { "this sandbox with its files" } else { "these sandboxes with their files" };
    if !args.yes && act::can_ask() && !act::ask(&format!("Delete {what}?"))? {
        return Ok(ExitCode::FAILURE);
    }
    each(Act::Delete, &args.named, config).await
}

/// Parks the named sandboxes.
pub async fn park(args: ParkArgs, config: &Config) -> anyhow::Result<ExitCode> {
    each(Act::Park { force: args.force }, &args.named, config).await
}

/// One after another; one that fails, or cannot be looked up, does not keep the others from their turn.
async fn each(act: Act, args: &NamedArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let mut outcomes = Vec::new();
    for name in &args.names {
        outcomes.push(match sandboxes::find(&client, name).await {
            Ok(Some(sandbox)) => act.on(&client, name, &sandbox).await,
            Ok(None) => Outcome::missing(name),
            Err(error) => Outcome::failed(name, &args.daemon.explain(error, config)),
        });
    }
    Ok(act.tell(&outcomes, args.json)?)
}
