//! `sandboxd prune --orphans`: removes workspaces and disks that no sandbox claims.

use std::io::{self, Write};
use std::process::ExitCode;

use sandbox_api::orphan::Orphan;
use sandbox_client::Client;

use super::{act, text};

/// What to do with them.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) dry_run: bool,
    pub(super) yes: bool,
    pub(super) json: bool,
}

/// One orphan in a line.
pub(super) fn line(orphan: &Orphan) -> String {
    let Orphan { kind, name, seen_at, removed_after } = orphan;
    let until = match removed_after {
        Some(at) => format!("kept at least until {at}"),
        None => "kept until somebody removes it, because most of what is on the engine would go".into(),
    };
    format!("{} {} (seen since {seen_at}, {until})", text::printable(kind), text::printable(name))
}

/// Lists them, asks, and removes them.
pub(super) async fn prune(client: &Client, how: How) -> anyhow::Result<ExitCode> {
    let orphans = client.orphans().await?.orphans;
    if how.dry_run && how.json {
        super::write_json(&mut io::stdout().lock(), &serde_json::json!({ "orphans": orphans }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !how.json {
        orphans.iter().try_for_each(|orphan| writeln!(io::stdout(), "{}", line(orphan)))?;
    }
    let summary = match orphans.len() {
        0 => "nothing on the engine is without a sandbox".to_owned(),
        1 => "1 workspace or disk without a sandbox".to_owned(),
        count => format!("{count} workspaces or disks without a sandbox"),
    };
    if how.dry_run || (orphans.is_empty() && !how.json) {
        writeln!(io::stdout(), "{summary}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !how.yes && !orphans.is_empty() {
        anyhow::ensure!(act::can_ask(), "{summary}; nobody can be asked here, so say --yes or --dry-run");
        if !act::ask(&format!("{summary}. Delete them with their files?"))? {
            return Ok(ExitCode::FAILURE);
        }
    }
    remove(client, &orphans, how.json).await
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
