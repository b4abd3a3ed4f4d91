//! `sandboxd audit verify`: checks the audit record in the state dir, with and without a running daemon.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use sandboxd_audit::verify::{Fault, Report, verify};
use sandboxd_audit::{Head, Key};
use sandboxd_config::Config;
use sandboxd_store::AuditHead;
use sandboxd_store::sqlite::read_audit_head;

use super::{exit_code, snapshot, text};

/// Check whether the audit record was changed
#[derive(Debug, Clone, clap::Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    action: AuditAction,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum AuditAction {
    /// Find lines that were changed, removed or reordered; reads the state dir, so no daemon has to run
    Verify {
        /// Also check against a last line that the daemon has logged: its seq and mac, as `SEQ:MAC`
        #[arg(long, value_name = "SEQ:MAC", value_parser = head)]
        logged: Option<Head>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Checks the record. The exit code is 1 if something is wrong.
pub(crate) async fn audit(args: AuditArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let AuditAction::Verify { logged, json } = args.action;
    let instance = sandboxd_state_dir::read_instance(&config.state_dir)?;
    // Before the files: a running daemon continues, and stores no line that is not in them.
    let stored = read_audit_head(&config.state_dir).await?.map(head_of).transpose()?;
    let key = Key::new(instance.audit_key());
    let heads: Vec<Head> = stored.into_iter().chain(logged).collect();
    let report = verify(&config.audit.dir, &key, &heads)?;
    snapshot::print(json, &to_json(&report), |out| write_report(out, &report))?;
    Ok(if report.is_intact() { ExitCode::SUCCESS } else { ExitCode::from(exit_code::FAILURE) })
}

fn head(text: &str) -> anyhow::Result<Head> {
    let (seq, mac) = text.split_once(':').context("must be a number, a colon and 64 hexadecimal digits")?;
    Ok(Head { seq: seq.parse()?, mac: mac.parse()? })
}

fn head_of(AuditHead { seq, mac }: AuditHead) -> anyhow::Result<Head> {
    let mac = mac.parse().context("the last line of the audit record in the database cannot be read")?;
    Ok(Head { seq, mac })
}

fn to_json(report: &Report) -> serde_json::Value {
    let fault = |Fault { file, line, kind }: &Fault| serde_json::json!({ "file": file, "line": line, "message": kind.to_string() });
    serde_json::json!({
        "ok": report.is_intact(),
        "files": report.files,
        "lines": report.lines,
        "firstSeq": report.first_seq,
        "lastSeq": report.head.seq,
        "lastMac": report.head.mac.to_string(),
        "tornLines": report.torn,
        "omittedLines": report.omitted,
        "unfinishedBytes": report.unfinished_bytes,
        "faults": report.faults.iter().map(fault).collect::<Vec<_>>(),
        "moreFaults": report.more_faults,
    })
}

fn write_report(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for Fault { file, line, kind } in &report.faults {
        let place = if *line == 0 { String::new() } else { format!(", line {line}") };
        writeln!(out, "{}{place}: {kind}", text::printable(file))?;
    }
    if report.more_faults > 0 {
        writeln!(out, "{} more", report.more_faults)?;
    }
    if report.torn > 0 {
        writeln!(
            out,
            "incomplete last lines of daemons that were killed, which were removed: {}",
            report.torn
        )?;
    }
    if report.omitted > 0 {
        writeln!(
            out,
            "acts of the daemon itself that were only counted, because the disk was full: {}",
            report.omitted
        )?;
    }
    let Report { lines, files, first_seq, head, .. } = report;
    let range = format!("{lines} lines in {files} files, numbers {first_seq} to {}", head.seq);
    match report.is_intact() {
        true => writeln!(out, "intact: {range}"),
        false => writeln!(out, "not intact: {range}"),
    }
}
