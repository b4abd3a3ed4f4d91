//! `sandboxd prune --orphans`: removes workspaces and disks on the engine that belong to no sandbox.

use std::io::{self, Write};
use std::process::ExitCode;

use sandbox_api::orphan::Orphan;
use sandbox_client::Client;

use super::{action, text};

/// Options of `prune` that apply to orphans.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrphanOptions {
    pub(super) dry_run: bool,
    pub(super) yes: bool,
    pub(super) json: bool,
}

/// One line about an orphan.
pub(super) fn describe(orphan: &Orphan) -> String {
    let Orphan { kind, name, seen_at, removed_after } = orphan;
    let until = match removed_after {
        Some(at) => format!("kept at least until {at}"),
        None => "not removed automatically, because most workspaces on the engine are orphans".into(),
    };
    format!("{} {} (first seen {seen_at}, {until})", text::printable(kind), text::printable(name))
}

/// Lists the orphans, asks for confirmation, and removes them.
pub(super) async fn prune(client: &Client, options: OrphanOptions) -> anyhow::Result<ExitCode> {
    let orphans = client.orphans().await?.orphans;
    if options.dry_run && options.json {
        super::write_json(&mut io::stdout().lock(), &serde_json::json!({ "orphans": orphans }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !options.json {
        orphans.iter().try_for_each(|orphan| writeln!(io::stdout(), "{}", describe(orphan)))?;
    }
    let summary = match orphans.len() {
        0 => "every workspace and disk on the engine belongs to a sandbox".to_owned(),
        1 => "1 workspace or disk without a sandbox".to_owned(),
        count => format!("{count} workspaces or disks without a sandbox"),
    };
    if options.dry_run || (orphans.is_empty() && !options.json) {
        writeln!(io::stdout(), "{summary}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !options.yes && !orphans.is_empty() {
        anyhow::ensure!(action::can_confirm(), "{summary}; without a terminal, use --yes or --dry-run");
        if !action::confirm(&format!("{summary}. Delete them with their files?"))? {
            return Ok(ExitCode::FAILURE);
        }
    }
    remove(client, &orphans, options.json).await
}

async fn remove(client: &Client, orphans: &[Orphan], json: bool) -> anyhow::Result<ExitCode> {
    let mut results = Vec::new();
    for orphan in orphans {
        let error = client.remove_orphan(&orphan.name).await.err().map(|error| error.to_string());
        let name = text::printable(&orphan.name);
        match &error {
            _ if json => {}
            None => writeln!(io::stdout(), "{name}: deleted")?,
            Some(error) => writeln!(io::stderr(), "sandboxd: {name}: {}", text::printable(error))?,
        }
        results.push(serde_json::json!({ "name": orphan.name, "ok": error.is_none(), "error": error }));
    }
    let ok = results.iter().all(|result| result["ok"] == true);
    if json {
        super::write_json(&mut io::stdout().lock(), &serde_json::json!({ "results": results }))?;
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
