//! `sandboxd snapshots`: lists the snapshots, one line each.

use std::io::{self, Write};
use std::process::ExitCode;

use sandbox_api::SandboxId;
use sandbox_api::snapshot::{Snapshot, SnapshotList, SnapshotState};
use sandbox_client::{Client, Error};

use super::{DaemonArgs, snapshot, table, text};
use sandboxd_config::Config;

const HEADER: [&str; 8] = ["ID", "CREATED", "SESSION", "FILES", "SIZE", "NEW", "STATE", "NAME"];

/// List all snapshots, newest first
#[derive(Debug, Clone, clap::Args)]
pub struct SnapshotsArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Only those of this sandbox (`sbx_…`) or session (`chat:…`), which may be deleted
    #[arg(value_name = "ID|SESSION")]
    sandbox: Option<String>,
    /// Print the snapshots as the API reports them, as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the snapshots.
pub(crate) async fn snapshots(args: SnapshotsArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let found = found(&client, args.sandbox.as_deref()).await;
    let found = found.map_err(|error| args.daemon.explain(error, config))?;
    snapshot::print(args.json, &serde_json::json!({ "snapshots": found }), |out| write_table(out, &found))
}

async fn found(client: &Client, name: Option<&str>) -> Result<Vec<Snapshot>, Error> {
    if let Some(sandbox) = name.and_then(|name| name.parse::<SandboxId>().ok()) {
        return pages(async |cursor| client.snapshots(&sandbox, cursor).await).await;
    }
    let mut found = pages(async |cursor| client.all_snapshots(cursor).await).await?;
    // A session may have had other sandboxes, which are deleted.
    found.retain(|snapshot| name.is_none_or(|name| snapshot.session_key.as_deref() == Some(name.trim())));
    Ok(found)
}

/// The snapshots of all pages.
async fn pages(
    list: impl AsyncFn(Option<&str>) -> Result<SnapshotList, Error>,
) -> Result<Vec<Snapshot>, Error> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = list(cursor.as_deref()).await?;
        // Pages that are empty but have a cursor could make this loop endless.
        let is_last = page.next_cursor.is_none() || page.snapshots.is_empty();
        found.extend(page.snapshots);
        if is_last {
            return Ok(found);
        }
        cursor = page.next_cursor;
    }
}

fn write_table(out: &mut impl Write, snapshots: &[Snapshot]) -> io::Result<()> {
    let header = std::iter::once(HEADER.map(str::to_owned));
    table::write(out, &header.chain(snapshots.iter().map(row)).collect::<Vec<_>>())
}

fn row(snapshot: &Snapshot) -> [String; 8] {
    let untrusted = |text: &Option<String>| text.as_deref().map_or_else(|| "-".into(), table::untrusted);
    [
        snapshot.snapshot_id.to_string(),
        format!("{:.0}", snapshot.created_at),
        untrusted(&snapshot.session_key),
        snapshot.files.to_string(),
        text::size(snapshot.size_bytes),
        text::size(snapshot.new_bytes),
        state_name(snapshot.state).to_owned(),
        untrusted(&snapshot.name),
    ]
}

fn state_name(state: SnapshotState) -> &'static str {
    match state {
        SnapshotState::Complete => "complete",
        SnapshotState::Damaged => "damaged",
    }
}
