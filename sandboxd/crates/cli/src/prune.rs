//! `sandboxd prune`: deletes parked sandboxes.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use sandbox_api::sandbox::{ListSandboxes, Sandbox, SandboxState};
use sandbox_client::Client;

use super::action::{self, Action, Outcome};
use super::{DaemonArgs, orphan, ps, sandboxes, text};
use sandboxd_config::Config;

/// Delete parked sandboxes with their files
#[derive(Debug, Clone, clap::Args)]
pub struct PruneArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Only sandboxes that were not used for this long, such as 90s, 30m, 12h or 7d
    #[arg(long, value_parser = text::parse_span)]
    older_than: Option<Duration>,
    /// Delete orphans instead: workspaces and disks on the engine that belong to no sandbox
    #[arg(long, conflicts_with = "older_than")]
    orphans: bool,
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation; required without a terminal
    #[arg(long, short)]
    yes: bool,
    /// Print the result for each as JSON
    #[arg(long)]
    json: bool,
}

/// Prints what would be freed, asks for confirmation, and deletes the sandboxes that were not used in the meantime.
pub(crate) async fn prune(args: PruneArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    if args.orphans {
        let PruneArgs { dry_run, yes, json, .. } = args;
        return orphan::prune(&client, orphan::OrphanOptions { dry_run, yes, json }).await;
    }
    let parked = ListSandboxes { state: Some(SandboxState::Parked), ..ListSandboxes::default() };
    let found = async { sandboxes::with_usage(&client, sandboxes::all(&client, parked).await?).await };
    let found = found.await.map_err(|error| args.daemon.explain(error, config))?;
    let chosen = chosen(found, args.older_than.unwrap_or_default(), Timestamp::now());
    let summary = summary(&chosen);
    if args.dry_run && args.json {
        super::write_json(&mut io::stdout().lock(), &serde_json::json!({ "sandboxes": chosen }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run || (chosen.is_empty() && !args.json) {
        if args.dry_run {
            ps::write_table(&mut io::stdout().lock(), &chosen, Timestamp::now())?;
        }
        writeln!(io::stdout(), "{summary}")?;
        report_orphans(&client).await?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !chosen.is_empty() {
        anyhow::ensure!(action::can_confirm(), "{summary}; without a terminal, use --yes or --dry-run");
        if !action::confirm(&format!("{summary}. Delete them with their files?"))? {
            return Ok(ExitCode::FAILURE);
        }
    }
    let mut outcomes = Vec::new();
    for sandbox in &chosen {
        outcomes.push(delete(&client, sandbox).await);
    }
    Ok(Action::Prune.report(&outcomes, args.json)?)
}

/// Prints the number of orphans, which also take space. An older daemon does not report them.
async fn report_orphans(client: &Client) -> io::Result<()> {
    match client.orphans().await.map_or(0, |found| found.orphans.len()) {
        0 => Ok(()),
        count => writeln!(io::stdout(), "{count} workspaces or disks without a sandbox; see --orphans"),
    }
}

/// Deletes a sandbox unless it was used since it was listed, because the confirmation may have taken long. The daemon
/// atomically refuses to delete a sandbox in use. One that was used and parked again has a later time of last use.
async fn delete(client: &Client, listed: &Sandbox) -> Outcome {
    let name = listed.sandbox_id.as_str();
    match client.get(&listed.sandbox_id).await {
        Ok(now) if now.last_active_at > listed.last_active_at => Outcome::spared(name, listed),
        // The deletion reports any other error.
        _ => Action::Prune.apply(client, name, listed).await,
    }
}

fn chosen(sandboxes: Vec<Sandbox>, idle: Duration, now: Timestamp) -> Vec<Sandbox> {
    // A sandbox that was woken since it was listed is in use again.
    let is_old = |sandbox: &Sandbox| {
        sandbox.state == SandboxState::Parked && ps::idle(sandbox, now).is_some_and(|span| span >= idle)
    };
    sandboxes.into_iter().filter(is_old).collect()
}

fn summary(chosen: &[Sandbox]) -> String {
    let sizes: Vec<u64> = chosen.iter().filter_map(|sandbox| sandbox.usage?.disk_bytes).collect();
    let count = match chosen.len() {
        0 => return "no parked sandbox to delete".into(),
        1 => "1 parked sandbox".into(),
        count => format!("{count} parked sandboxes"),
    };
    let unknown = chosen.len() - sizes.len();
    match (text::size(sizes.iter().sum()), unknown) {
        (size, 0) => format!("{count}, {size} on the disk"),
        (_, unknown) if unknown == chosen.len() => format!("{count}, of unknown size"),
        (size, unknown) => format!("{count}, {size} on the disk and {unknown} of unknown size"),
    }
}

#[cfg(test)]
mod tests {
    use sandbox_api::sandbox::Usage;

    use super::*;
    use crate::ps::tests::sandbox;

    #[test]
    fn only_old_parked_sandboxes_are_chosen() {
        let all = || vec![sandbox("chat:1", SandboxState::Parked), sandbox("chat:2", SandboxState::Running)];
        let after = |seconds| Timestamp::from_second(seconds).unwrap();
        let hour = Duration::from_secs(3600);
        assert_eq!(chosen(all(), Duration::ZERO, after(0)).len(), 1);
        assert_eq!(chosen(all(), hour, after(3599)).len(), 0);
        assert_eq!(chosen(all(), hour, after(3600)).len(), 1);
    }

    #[test]
    fn the_summary_contains_the_known_sizes() {
        let of = |disk_bytes| Sandbox {
            usage: Some(Usage { disk_bytes, ..Usage::default() }),
            ..sandbox("chat:1", SandboxState::Parked)
        };
        assert_eq!(summary(&[]), "no parked sandbox to delete");
        assert_eq!(summary(&[of(Some(2 << 20))]), "1 parked sandbox, 2.0 MiB on the disk");
        assert_eq!(summary(&[of(None), of(None)]), "2 parked sandboxes, of unknown size");
        assert_eq!(
            summary(&[of(Some(2 << 20)), of(None)]),
            "2 parked sandboxes, 2.0 MiB on the disk and 1 of unknown size"
        );
    }
}
