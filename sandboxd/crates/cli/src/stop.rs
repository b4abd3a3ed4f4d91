//! `sandboxd stop` and `sandboxd park`: delete or park sandboxes by id or session key.

use std::process::ExitCode;

use super::action::{self, Action, Outcome};
use super::{DaemonArgs, sandboxes};
use sandboxd_config::Config;

/// Delete sandboxes with their files
#[derive(Debug, Clone, clap::Args)]
pub struct StopArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// Do not ask for confirmation, which is only done on a terminal
    #[arg(long, short)]
    yes: bool,
}

/// Remove the containers of sandboxes and keep the files; the next use creates the containers again
#[derive(Debug, Clone, clap::Args)]
pub struct ParkArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// Also park sandboxes with running commands, which ends the commands
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, clap::Args)]
struct NamedArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print the result for each as JSON
    #[arg(long)]
    json: bool,
    /// Ids (`sbx_…`) or session keys (`chat:…`)
    #[arg(required = true, value_name = "ID|SESSION")]
    names: Vec<String>,
}

/// Deletes the named sandboxes. On a terminal, it asks for confirmation first.
pub(crate) async fn stop(args: StopArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let count = args.named.names.len();
    let what = if count == 1 { "this sandbox with its files" } else { "these sandboxes with their files" };
    if !args.yes && action::can_confirm() && !action::confirm(&format!("Delete {what}?"))? {
        return Ok(ExitCode::FAILURE);
    }
    apply_to_each(Action::Delete, &args.named, config).await
}

/// Parks the named sandboxes.
pub(crate) async fn park(args: ParkArgs, config: &Config) -> anyhow::Result<ExitCode> {
    apply_to_each(Action::Park { force: args.force }, &args.named, config).await
}

/// Applies the action to one sandbox after another. It continues if a lookup or an action fails.
async fn apply_to_each(action: Action, args: &NamedArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let mut outcomes = Vec::new();
    for name in &args.names {
        outcomes.push(match sandboxes::find(&client, name).await {
            Ok(Some(sandbox)) => action.apply(&client, name, &sandbox).await,
            Ok(None) => Outcome::missing(name),
            Err(error) => Outcome::failed(name, &args.daemon.explain(error, config)),
        });
    }
    Ok(action.report(&outcomes, args.json)?)
}
