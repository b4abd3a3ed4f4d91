//! `sandboxd ps`: lists the sandboxes, one line each.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use sandbox_api::sandbox::{ListSandboxes, Sandbox, SandboxState};

use super::{DaemonArgs, sandboxes, table, text};
use sandboxd_config::Config;

const HEADER: [&str; 8] = ["ID", "SESSION", "STATE", "IMAGE", "IDLE", "MEMORY", "DISK", "COMMANDS"];

/// List all sandboxes, most recently used first
#[derive(Debug, Clone, clap::Args)]
pub struct PsArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Only sandboxes in this state
    #[arg(long, value_enum)]
    state: Option<StateArg>,
    /// Print the sandboxes as the API reports them, as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum StateArg {
    Creating,
    Running,
    Parked,
    Failed,
    Lost,
}

/// Prints the sandboxes.
pub(crate) async fn ps(args: PsArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let which = ListSandboxes { state: args.state.map(StateArg::wire), ..ListSandboxes::default() };
    let found = async { sandboxes::with_usage(&client, sandboxes::all(&client, which).await?).await };
    let mut found = found.await.map_err(|error| args.daemon.explain(error, config))?;
    found.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.last_active_at));
    let mut out = io::stdout().lock();
    match args.json {
        true => super::write_json(&mut out, &serde_json::json!({ "sandboxes": found }))?,
        false => write_table(&mut out, &found, Timestamp::now())?,
    }
    Ok(ExitCode::SUCCESS)
}

impl StateArg {
    fn wire(self) -> SandboxState {
        match self {
            Self::Creating => SandboxState::Creating,
            Self::Running => SandboxState::Running,
            Self::Parked => SandboxState::Parked,
            Self::Failed => SandboxState::Failed,
            Self::Lost => SandboxState::Lost,
        }
    }
}

fn state_name(state: SandboxState) -> &'static str {
    match state {
        SandboxState::Creating => "creating",
        SandboxState::Running => "running",
        SandboxState::Parked => "parked",
        SandboxState::Failed => "failed",
        SandboxState::Lost => "lost",
        SandboxState::Deleted => "deleted",
    }
}

/// Writes a table of sandboxes.
pub(super) fn write_table(out: &mut impl Write, sandboxes: &[Sandbox], now: Timestamp) -> io::Result<()> {
    let rows: Vec<[String; 8]> = std::iter::once(HEADER.map(str::to_owned))
        .chain(sandboxes.iter().map(|sandbox| row(sandbox, now)))
        .collect();
    table::write(out, &rows)
}

fn row(sandbox: &Sandbox, now: Timestamp) -> [String; 8] {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".into(), text::size);
    let usage = sandbox.usage;
    [
        sandbox.sandbox_id.to_string(),
        table::untrusted(&sandbox.session_key),
        state_name(sandbox.state).to_owned(),
        table::untrusted(&sandbox.image),
        idle(sandbox, now).map_or_else(|| "-".into(), text::span),
        bytes(usage.map(|usage| usage.memory_bytes)),
        bytes(usage.and_then(|usage| usage.disk_bytes)),
        sandbox.running_commands.to_string(),
    ]
}

/// Time since the last use of the sandbox. `None` while a command runs in it.
pub(super) fn idle(sandbox: &Sandbox, now: Timestamp) -> Option<Duration> {
    // The daemon's clock may differ from ours.
    let since = now.duration_since(sandbox.last_active_at).unsigned_abs();
    let is_ahead = sandbox.last_active_at > now;
    (sandbox.running_commands == 0).then_some(if is_ahead { Duration::ZERO } else { since })
}

#[cfg(test)]
pub(super) mod tests {
    use sandbox_api::sandbox::{Network, Resources, Usage};

    use super::*;

    pub(crate) fn sandbox(key: &str, state: SandboxState) -> Sandbox {
        Sandbox {
            sandbox_id: "sbx_0123456789abcdef".parse().unwrap(),
            session_key: key.into(),
            subject: None,
            state,
            runtime: "node24".into(),
            image: "remcochat-sandbox:node24".into(),
            resources: Resources::default(),
            network: Network::default(),
            ports: Vec::new(),
            env_keys: Vec::new(),
            secret_env: Default::default(),
            metadata: Default::default(),
            checkpoints: None,
            checkpoint_id: None,
            checkpoint_pending: false,
            created_at: Timestamp::UNIX_EPOCH,
            last_active_at: Timestamp::UNIX_EPOCH,
            idle_ttl_ms: 900_000,
            expires_at: None,
            running_commands: 0,
            usage: None,
            posture: None,
        }
    }

    fn table(sandboxes: &[Sandbox], seconds: i64) -> String {
        let mut out = Vec::new();
        write_table(&mut out, sandboxes, Timestamp::from_second(seconds).unwrap()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_describes_a_sandbox_and_its_usage() {
        let usage = Usage { memory_bytes: 64 << 20, disk_bytes: Some(3 << 30), ..Usage::default() };
        let busy =
            Sandbox { running_commands: 2, usage: Some(usage), ..sandbox("chat:1", SandboxState::Running) };
        let table = table(&[busy, sandbox("tmp:2", SandboxState::Parked)], 600);
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
        let cells =
            |line: usize| lines[line].iter().copied().filter(|cell| !cell.is_empty()).collect::<Vec<_>>();
        assert_eq!(cells(0), HEADER);
        let image = "remcochat-sandbox:node24";
        let id = "sbx_0123456789abcdef";
        assert_eq!(cells(1), [id, "chat:1", "running", image, "-", "64 MiB", "3.0 GiB", "2"]);
        assert_eq!(cells(2), [id, "tmp:2", "parked", image, "10m", "-", "-", "0"]);
    }

    #[test]
    fn session_keys_are_escaped_and_cut() {
        let key = format!("chat:\u{1b}]0;owned\u{7}{}", "x".repeat(500));
        let table = table(&[sandbox(&key, SandboxState::Running)], 0);
        assert!(!table.contains(['\u{1b}', '\u{7}']) && table.contains("\\u{1b}]0;owned"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() < 160), "{table}");
    }

    #[test]
    fn the_idle_time_is_zero_if_our_clock_is_behind() {
        let ahead = Timestamp::from_second(-60).unwrap();
        assert_eq!(idle(&sandbox("chat:1", SandboxState::Running), ahead), Some(Duration::ZERO));
    }
}
