//! `sandboxd snapshot`, `restore` and `fork`: the files of a sandbox at one time.

use std::io::{self, Write};
use std::process::ExitCode;

use sandbox_api::SnapshotId;
use sandbox_api::snapshot::{ForkSandbox, MakeSnapshot, RestoreSnapshot, Snapshot, SnapshotMade};

use super::progress::waiting;
use super::{DaemonArgs, sandboxes, text};
use sandboxd_config::Config;

/// Make or delete snapshots of a sandbox's files
#[derive(Debug, Clone, clap::Args)]
pub struct SnapshotArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Id (`sbx_…`) or session key (`chat:…`)
    #[arg(value_name = "ID|SESSION", required_unless_present = "delete")]
    sandbox: Option<String>,
    /// Name of the new snapshot
    #[arg(long)]
    name: Option<String>,
    /// Delete the new snapshot after this time, such as 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = text::parse_span)]
    ttl: Option<std::time::Duration>,
    /// Stop the sandbox's processes while their files are read
    #[arg(long)]
    pause: bool,
    /// Delete this snapshot instead (`snap_…`)
    #[arg(long, value_name = "SNAPSHOT", conflicts_with_all = ["sandbox", "name", "ttl", "pause"])]
    delete: Option<SnapshotId>,
    /// Print the API's responses as JSON
    #[arg(long)]
    json: bool,
}

/// Turn a sandbox's files into those of a snapshot
#[derive(Debug, Clone, clap::Args)]
pub struct RestoreArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Id (`sbx_…`) or session key (`chat:…`)
    #[arg(value_name = "ID|SESSION")]
    sandbox: String,
    /// Snapshot (`snap_…`)
    snapshot: SnapshotId,
    /// End running commands and programs on terminals
    #[arg(long)]
    force: bool,
    /// Print the API's response as JSON
    #[arg(long)]
    json: bool,
}

/// Create sandboxes with the files and the configuration of another one
#[derive(Debug, Clone, clap::Args)]
pub struct ForkArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Id (`sbx_…`) or session key (`chat:…`)
    #[arg(value_name = "ID|SESSION")]
    sandbox: String,
    /// Session keys of the new sandboxes
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    /// Print the API's response as JSON
    #[arg(long)]
    json: bool,
}

/// Makes a snapshot, or deletes one.
pub(crate) async fn snapshot(args: SnapshotArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let explain = |error| args.daemon.explain(error, config);
    if let Some(snapshot) = &args.delete {
        client.delete_snapshot(snapshot).await.map_err(explain)?;
        writeln!(io::stdout(), "{snapshot}: deleted")?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.sandbox.as_deref().unwrap_or_default();
    let sandbox = sandboxes::require(&client, &args.daemon, name, config).await?.sandbox_id;
    let body = MakeSnapshot {
        name: args.name,
        ttl_ms: args.ttl.map(|ttl| ttl.as_millis() as u64),
        pause: args.pause.then_some(true),
    };
    let made = waiting("reading the files", client.make_snapshot(&sandbox, &body)).await.map_err(explain)?;
    print(args.json, &serde_json::to_value(&made)?, |out| write_made(out, &made))
}

/// Restores a snapshot.
pub(crate) async fn restore(args: RestoreArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let sandbox = sandboxes::require(&client, &args.daemon, &args.sandbox, config).await?.sandbox_id;
    let body = RestoreSnapshot { snapshot_id: args.snapshot, force: args.force.then_some(true) };
    let done = waiting("restoring the files", client.restore_snapshot(&sandbox, &body)).await;
    let done = done.map_err(|error| args.daemon.explain(error, config))?;
    print(args.json, &serde_json::to_value(&done)?, |out| {
        writeln!(out, "restored: {} written, {} removed", done.written, done.removed)?;
        writeln!(out, "undo with: sandboxd restore {} {}", text::printable(&args.sandbox), done.checkpoint_id)
    })
}

/// Forks a sandbox.
pub(crate) async fn fork(args: ForkArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let sandbox = sandboxes::require(&client, &args.daemon, &args.sandbox, config).await?.sandbox_id;
    let body = ForkSandbox { session_keys: args.sessions.clone() };
    let forked = waiting("creating the sandboxes", client.fork(&sandbox, &body)).await;
    let forked = forked.map_err(|error| args.daemon.explain(error, config))?;
    print(args.json, &serde_json::to_value(&forked)?, |out| {
        let mut forks = args.sessions.iter().zip(&forked.sandboxes);
        forks
            .try_for_each(|(session, fork)| writeln!(out, "{} {}", fork.sandbox_id, text::printable(session)))
    })
}

pub(super) fn print(
    json: bool,
    value: &serde_json::Value,
    write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>,
) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match json {
        true => super::write_json(&mut out, value)?,
        false => write(&mut out)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_made(out: &mut impl Write, made: &SnapshotMade) -> io::Result<()> {
    writeln!(out, "{}", describe(&made.snapshot))?;
    if made.torn_files > 0 {
        writeln!(out, "changed while they were read: {} files", made.torn_files)?;
    }
    made.torn.iter().try_for_each(|path| writeln!(out, "  {}", text::printable(path)))
}

pub(super) fn describe(snapshot: &Snapshot) -> String {
    let Snapshot { snapshot_id, name, created_at, files, .. } = snapshot;
    let name = name.as_deref().map(|name| format!(" {}", text::printable(name))).unwrap_or_default();
    let (size, new) = (text::size(snapshot.size_bytes), text::size(snapshot.new_bytes));
    format!("{snapshot_id} {created_at:.0} {files} files, {size}, {new} new{name}")
}
