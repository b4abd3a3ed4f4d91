//! `sandboxd diff`: what differs between two snapshots.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandbox_api::SnapshotId;
use sandbox_api::snapshot::{ChangeKind, DiffOmitted, SnapshotChange};
use sandbox_client::{Client, Error};

use super::progress::waiting;
use super::{DaemonArgs, snapshot, text};
use sandboxd_config::Config;

/// List what differs between two snapshots
#[derive(Debug, Clone, clap::Args)]
pub struct DiffArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Earlier snapshot (`snap_…`)
    from: SnapshotId,
    /// Later snapshot (`snap_…`)
    to: SnapshotId,
    /// Print a patch of the workspace, for `git apply` or `patch -p1`
    #[arg(long, short)]
    patch: bool,
    /// Print the changes as JSON
    #[arg(long)]
    json: bool,
}

/// Compares two snapshots.
pub(crate) async fn diff(args: DiffArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let explain = |error| args.daemon.explain(error, config);
    let (from, to) = (&args.from, &args.to);
    if args.patch && !args.json {
        let outside = each_patch(&client, from, to, print_patch).await?;
        if outside > 0 {
            writeln!(io::stderr(), "sandboxd: not in the patch: {outside} changes outside the workspace")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let changes = waiting("comparing the files", changes(&client, from, to, args.patch)).await;
    let changes = changes.map_err(explain)?;
    snapshot::print(args.json, &serde_json::json!({ "changes": changes }), |out| {
        changes.iter().try_for_each(|change| writeln!(out, "{}", describe_change(change)))
    })
}

/// Passes on the patch of each change. What has none is named on standard error. Returns the number of changes outside the
/// workspace.
pub(super) async fn each_patch(
    client: &Client,
    from: &SnapshotId,
    to: &SnapshotId,
    mut pass_on: impl FnMut(&[u8]) -> io::Result<()>,
) -> anyhow::Result<u64> {
    let mut outside = 0;
    let mut cursor: Option<String> = None;
    loop {
        let page = client.diff_snapshots(Some(from), to, cursor.as_deref());
        let page = waiting("comparing the files", page).await?;
        for change in &page.changes {
            outside += u64::from(change.diff_omitted == Some(DiffOmitted::Outside));
            if let Some(patch) = patch_of(change)? {
                pass_on(&patch)?;
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(outside);
        }
    }
}

/// Everything that differs between two snapshots.
pub(super) async fn all_changes(
    client: &Client,
    from: &SnapshotId,
    to: &SnapshotId,
) -> Result<Vec<SnapshotChange>, Error> {
    changes(client, from, to, false).await
}

async fn changes(
    client: &Client,
    from: &SnapshotId,
    to: &SnapshotId,
    with_patches: bool,
) -> Result<Vec<SnapshotChange>, Error> {
    let mut changes = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = match with_patches {
            true => client.diff_snapshots(Some(from), to, cursor.as_deref()).await?,
            false => client.compare_snapshots(Some(from), to, cursor.as_deref()).await?,
        };
        changes.extend(page.changes);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(changes);
        }
    }
}

/// The patch of a change. What has none is named on standard error.
fn patch_of(change: &SnapshotChange) -> anyhow::Result<Option<Vec<u8>>> {
    if let Some(omitted) = change.diff_omitted.filter(|omitted| *omitted != DiffOmitted::Outside) {
        let path = text::printable(&change.path);
        writeln!(io::stderr(), "sandboxd: not in the patch: {path}: {}", reason(omitted))?;
    }
    let bytes = match &change.diff_base64 {
        Some(encoded) => Some(STANDARD.decode(encoded).context("the daemon's patch is not valid base64")?),
        None => change.diff.clone().map(String::into_bytes),
    };
    Ok(bytes)
}

fn print_patch(patch: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        return out.write_all(patch);
    }
    // Texts of a sandbox may contain terminal control sequences.
    String::from_utf8_lossy(patch).lines().try_for_each(|line| writeln!(out, "{}", shown(line)))
}

/// A line with its tabs, and without other control characters.
fn shown(line: &str) -> String {
    line.split('\t').map(text::printable).collect::<Vec<_>>().join("\t")
}

fn reason(omitted: DiffOmitted) -> &'static str {
    match omitted {
        DiffOmitted::Binary => "it is not text",
        DiffOmitted::TooLarge => "it is too large",
        DiffOmitted::Special => "a patch cannot express a hard link, a named pipe or a socket",
        DiffOmitted::Metadata => "only metadata differs that a patch cannot express",
        DiffOmitted::Outside => "it is not in the workspace",
        DiffOmitted::Git => "it is in a directory .git",
    }
}

/// One line as in `git diff --name-status`.
pub(super) fn describe_change(change: &SnapshotChange) -> String {
    let letter = match change.change {
        ChangeKind::Added => 'A',
        ChangeKind::Modified => 'M',
        ChangeKind::Deleted => 'D',
        ChangeKind::Renamed => 'R',
    };
    let from =
        change.from.as_deref().map(|from| format!("{} -> ", text::printable(from))).unwrap_or_default();
    format!("{letter} {from}{}", text::printable(&change.path))
}
