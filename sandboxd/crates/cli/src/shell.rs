//! `sandboxd shell`: connects the user's terminal to a terminal of a session's sandbox.
//!
//! The terminal belongs to the sandbox. It keeps running when the user detaches, closes the window or restarts the
//! daemon. The mode of the user's own terminal is always restored at the end.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::terminal::{OpenTerminal, TerminalState};
use sandbox_api::{SandboxId, TerminalId};
use sandbox_client::{Client, Error};
use tokio::signal::unix::{SignalKind, signal};

use super::DaemonArgs;
use super::attachment::{Attachment, AttachmentEnd, RECONNECT_TIMEOUT, window};
use super::detach::DetachKeys;
use super::interrupts::Interrupts;
use super::raw_mode::{RawMode, TypedKeys};
use sandboxd_config::Config;

/// Open a terminal in a sandbox; it keeps running when you detach, and the next `shell` attaches to it again
#[derive(Debug, Clone, clap::Args)]
pub struct ShellArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Session whose sandbox is used and kept
    #[arg(default_value = "shell")]
    session: String,
    /// Open a new terminal instead of attaching to the newest shell
    #[arg(long)]
    new: bool,
    /// Keys that detach from the terminal, which keeps running
    #[arg(long, default_value = DetachKeys::DEFAULT)]
    detach_keys: DetachKeys,
    /// Working directory of a new terminal, relative to the workspace
    #[arg(long)]
    cwd: Option<String>,
    /// Program and arguments to run instead of a shell, always in a new terminal
    #[arg(last = true)]
    command: Vec<String>,
}

/// Opens or finds the terminal, and attaches to it until it ends or the user detaches. The exit code is the program's.
pub(crate) async fn shell(args: ShellArgs, config: &Config) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        is_possible(),
        "standard input is not a terminal; use `sandboxd run` to run a command without one"
    );
    let client = args.daemon.client(config)?;
    let explain = |error| args.daemon.explain(error, config);
    let session = CreateSandbox { session_key: args.session.clone(), ..CreateSandbox::default() };
    let sandbox = client.create_or_reconnect(&session).await.map_err(explain)?.sandbox_id;
    let terminal = find_or_open(&client, &sandbox, &args).await.map_err(explain)?;
    let keys = args.detach_keys.name();
    writeln!(
        io::stderr(),
        "sandboxd: press {keys} to detach; `sandboxd shell {}` attaches again",
        args.session
    )?;
    match attach(&client, &sandbox, &terminal, args.detach_keys.clone()).await? {
        AttachmentEnd::Exited(code) | AttachmentEnd::Interrupted(code) => Ok(ExitCode::from(code)),
        AttachmentEnd::Detached => {
            writeln!(io::stderr(), "\nsandboxd: detached; the terminal keeps running")?;
            Ok(ExitCode::SUCCESS)
        }
        AttachmentEnd::Disconnected(error) => {
            let context = format!("could not reconnect to the daemon within {RECONNECT_TIMEOUT:?}");
            Err(explain(error).context(context))
        }
    }
}

/// Whether there is a terminal to connect.
pub(super) fn is_possible() -> bool {
    io::stdin().is_terminal()
}

/// Opens a shell and connects to it until it ends. Returns its exit code, and success if the user detaches.
pub(super) async fn attach_new(client: &Client, sandbox: &SandboxId) -> anyhow::Result<u8> {
    let (cols, rows) = window().unzip();
    let request = OpenTerminal { cols, rows, ..OpenTerminal::default() };
    let terminal = client.open_terminal(sandbox, &request).await?.terminal_id;
    match attach(client, sandbox, &terminal, DetachKeys::default()).await? {
        AttachmentEnd::Exited(code) | AttachmentEnd::Interrupted(code) => Ok(code),
        AttachmentEnd::Detached => Ok(0),
        AttachmentEnd::Disconnected(error) => Err(error.into()),
    }
}

/// Connects the user's terminal, which has its old mode again at the end.
async fn attach(
    client: &Client,
    sandbox: &SandboxId,
    terminal: &TerminalId,
    detach: DetachKeys,
) -> anyhow::Result<AttachmentEnd> {
    let raw_mode = RawMode::enter().context("the terminal cannot be set to raw mode")?;
    let mut attachment = Attachment {
        client,
        sandbox,
        terminal,
        detach,
        input: TypedKeys::open()?,
        resized: signal(SignalKind::window_change())?,
        interrupts: Interrupts::listen()?,
    };
    let end = attachment.run().await;
    // While the terminal is in raw mode, a read does not wait for the end of a line.
    drop(attachment);
    drop(raw_mode);
    end
}

/// Returns the newest running shell, or opens a terminal if there is none or a new one is requested.
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
    let request = OpenTerminal { cmd, args: rest, cwd: args.cwd.clone(), cols, rows, env: None };
    Ok(client.open_terminal(sandbox, &request).await?.terminal_id)
}
