//! `sandboxd shell`: a terminal of a session's sandbox in the caller's terminal.
//!
//! The terminal is the sandbox's and goes on without us: the detach keys, a window that is closed and a daemon that is
//! restarted leave it as it is. Whatever ends us, the caller's terminal is put back first.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::terminal::{OpenTerminal, TerminalState};
use sandbox_api::{SandboxId, TerminalId};
use sandbox_client::{Client, Error};
use tokio::signal::unix::{SignalKind, signal};

use super::DaemonArgs;
use super::detach::DetachKeys;
use super::interrupts::Interrupts;
use super::raw_mode::{self, RawMode};
use super::stay::{Left, RECONNECT, Stay, window};
use crate::config::Config;

/// Open a terminal in a sandbox; it goes on when you leave, and the next `shell` comes back to it
#[derive(Debug, Clone, clap::Args)]
pub struct ShellArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Session whose sandbox is used, and kept
    #[arg(default_value = "shell")]
    session: String,
    /// Open another terminal instead of coming back to the newest shell
    #[arg(long)]
    new: bool,
    /// Keys that leave the terminal and let it go on
    #[arg(long, default_value = "ctrl-]")]
    detach_keys: DetachKeys,
    /// Working directory of a new terminal, relative to the workspace
    #[arg(long)]
    cwd: Option<String>,
    /// Program and arguments to run instead of a shell, always on a terminal of their own
    #[arg(last = true)]
    command: Vec<String>,
}

/// Opens or finds the terminal and stays until it ends or is left; the exit code is the program's.
pub async fn shell(args: ShellArgs, config: &Config) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        io::stdin().is_terminal(),
        "standard input is not a terminal; `sandboxd run` runs a command without one"
    );
    let client = args.daemon.client(config)?;
    let explain = |error| args.daemon.explain(error, config);
    let session = CreateSandbox { session_key: args.session.clone(), ..CreateSandbox::default() };
    let sandbox = client.create_or_reconnect(&session).await.map_err(explain)?.sandbox_id;
    let terminal = find_or_open(&client, &sandbox, &args).await.map_err(explain)?;
    let keys = args.detach_keys.name();
    writeln!(io::stderr(), "sandboxd: {keys} leaves; `sandboxd shell {}` comes back", args.session)?;
    let left = {
        let raw_mode = RawMode::enter().context("the terminal cannot be set to raw mode")?;
        let mut stay = Stay {
            client: &client,
            sandbox: &sandbox,
            terminal: &terminal,
            detach: args.detach_keys.clone(),
            typed: raw_mode::keys()?,
            resized: signal(SignalKind::window_change())?,
            interrupts: Interrupts::listen()?,
        };
        let left = stay.see_it_through().await;
        drop(raw_mode);
        left
    };
    match left? {
        Left::Ended(code) | Left::Asked(code) => Ok(ExitCode::from(code)),
        Left::Detached => {
            writeln!(io::stderr(), "\nsandboxd: left; the terminal keeps running")?;
            Ok(ExitCode::SUCCESS)
        }
        Left::Broken(error) => {
            Err(explain(error).context(format!("the daemon did not come back within {RECONNECT:?}")))
        }
    }
}

/// The newest shell that runs, unless a new one is asked for.
async fn find_or_open(client: &Client, sandbox: &SandboxId, args: &ShellArgs) -> Result<TerminalId, Error> {
    let (cmd, rest) = match args.command.split_first() {
        Some((cmd, rest)) => (Some(cmd.clone()), Some(rest.to_vec())),
        None => (None, None),
    };
    if cmd.is_none() && !args.new {
        let known = client.terminals(sandbox).await?.terminals;
        let shell = known.into_iter().find(|known| known.is_shell && known.state == TerminalState::Running);
        if let Some(shell) = shell {
            return Ok(shell.terminal_id);
        }
    }
    let (cols, rows) = window().unzip();
    let wish = OpenTerminal { cmd, args: rest, cwd: args.cwd.clone(), cols, rows, env: None };
    Ok(client.open_terminal(sandbox, &wish).await?.terminal_id)
}
