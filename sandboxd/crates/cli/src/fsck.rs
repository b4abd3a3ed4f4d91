//! `sandboxd fsck`: checks the store of snapshots through the running daemon, which has its locks.

use std::io::{self, Write};
use std::process::ExitCode;

use sandbox_api::snapshot::{CheckSnapshots, PackFault, SnapshotsChecked};

use super::progress::waiting;
use super::{DaemonArgs, exit_code, snapshot, text};
use sandboxd_config::Config;

/// Verify all snapshots, and move damaged data aside
#[derive(Debug, Clone, clap::Args)]
pub struct FsckArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Change nothing
    #[arg(long)]
    read_only: bool,
    /// Print the API's response as JSON
    #[arg(long)]
    json: bool,
}

/// Checks the store. The exit code is 1 if something is damaged.
pub(crate) async fn fsck(args: FsckArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let body = CheckSnapshots { read_only: args.read_only.then_some(true) };
    let checked = waiting("checking the snapshots", client.check_snapshots(&body)).await;
    let checked = checked.map_err(|error| args.daemon.explain(error, config))?;
    snapshot::print(args.json, &serde_json::to_value(&checked)?, |out| write_checked(out, &checked))?;
    Ok(if checked.ok { ExitCode::SUCCESS } else { ExitCode::from(exit_code::FAILURE) })
}

fn write_checked(out: &mut impl Write, checked: &SnapshotsChecked) -> io::Result<()> {
    let SnapshotsChecked { packs, chunks, bytes, faults, faulty_packs, .. } = checked;
    writeln!(out, "packs: {packs}, with {chunks} chunks, {}", text::size(*bytes))?;
    faults.iter().try_for_each(|fault| writeln!(out, "  {}", describe(fault)))?;
    let more = faulty_packs.saturating_sub(faults.len() as u64);
    if more > 0 {
        writeln!(out, "  {more} more")?;
    }
    let SnapshotsChecked { snapshots, damaged, damaged_snapshots, .. } = checked;
    writeln!(out, "snapshots: {snapshots}, {damaged_snapshots} of them damaged")?;
    damaged.iter().try_for_each(|damaged| writeln!(out, "  {}", snapshot::describe(damaged)))?;
    let more = damaged_snapshots.saturating_sub(damaged.len() as u64);
    if more > 0 {
        writeln!(out, "  {more} more")?;
    }
    if checked.unverified_snapshots > 0 {
        writeln!(out, "not read completely: {} snapshots", checked.unverified_snapshots)?;
    }
    match checked.incomplete {
        true => writeln!(out, "the check has stopped before its end; the daemon's log has the reason"),
        false => Ok(()),
    }
}

fn describe(fault: &PackFault) -> String {
    let PackFault { pack, message, damaged_chunks, intact_chunks, .. } = fault;
    let message = text::printable(message);
    let chunks =
        if *damaged_chunks > 0 { format!("; damaged chunks: {damaged_chunks}") } else { String::new() };
    let moved = match fault.quarantined {
        true => format!("; moved to the quarantine; chunks stored again: {intact_chunks}"),
        false => String::new(),
    };
    format!("{}: {message}{chunks}{moved}", text::printable(pack))
}
