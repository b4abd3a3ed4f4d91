//! `sandboxd shell`: a terminal of a session's sandbox in the caller's terminal.
//!
//! The terminal is the sandbox's and goes on without us: the detach keys, a window that is closed and a daemon that is
//! restarted leave it as it is. Whatever ends us, the caller's terminal is put back first.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use sandbox_api::command::EndReason;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::terminal::{OpenTerminal, TerminalState};
use sandbox_api::{ErrorCode, SandboxId, TerminalId};
use sandbox_client::{Client, Error, Keyboard, TerminalEvent, TerminalEvents};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::DaemonArgs;
use super::detach::{DetachKeys, Typed};
use super::interrupts::Interrupts;
use super::raw_mode::{self, RawMode};
use crate::config::Config;
use crate::model::limits::{MAX_TERMINAL_COLS, MAX_TERMINAL_ROWS};

/// How long a daemon that went away is waited for.
const RECONNECT: Duration = Duration::from_secs(60);

/// Pause between two tries.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

/// Before what is kept comes once more: the screen is cleared.
const CLEAR: &[u8] = b"\x1b[m\x1b[H\x1b[2J";

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

/// How a stay at the terminal ended.
enum Left {
    /// Its program ended, with this code.
    Ended(u8),
    /// By the detach keys.
    Detached,
    /// The caller's own terminal is gone, or a signal asked us to end; the exit code.
    Asked(u8),
    /// The connection broke.
    Broken(Error),
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
            writeln!(io::stderr(), "\nsandboxd: left; the terminal goes on")?;
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

/// The caller's window, as large as a terminal may be.
fn window() -> Option<(u32, u32)> {
    let (cols, rows) = raw_mode::window()?;
    Some((cols.min(MAX_TERMINAL_COLS), rows.min(MAX_TERMINAL_ROWS)))
}

/// Everything that happens between two terminals.
struct Stay<'a> {
    client: &'a Client,
    sandbox: &'a SandboxId,
    terminal: &'a TerminalId,
    detach: DetachKeys,
    typed: mpsc::Receiver<Vec<u8>>,
    resized: Signal,
    interrupts: Interrupts,
}

impl Stay<'_> {
    /// Comes back after each break, for as long as the daemon is waited for.
    async fn see_it_through(&mut self) -> anyhow::Result<Left> {
        let mut broken_since = None;
        loop {
            let error = match self.client.attach_terminal(self.sandbox, self.terminal).await {
                Ok((events, keyboard)) => {
                    if broken_since.take().is_some() {
                        write_out(CLEAR)?;
                    }
                    match self.at_the_terminal(events, keyboard).await? {
                        Left::Broken(error) => error,
                        left => return Ok(left),
                    }
                }
                Err(error) if !may_pass(&error) => return Err(error.into()),
                Err(error) => error,
            };
            let since = *broken_since.get_or_insert_with(|| {
                // A line of its own, which the screen is cleared of when the daemon is back.
                let _ = write_out(b"\r\nsandboxd: the connection broke; waiting for the daemon\r\n");
                Instant::now()
            });
            if since.elapsed() > RECONNECT {
                return Ok(Left::Broken(error));
            }
            if let Some(left) = self.pause().await {
                return Ok(left);
            }
        }
    }

    async fn at_the_terminal(
        &mut self,
        mut events: TerminalEvents,
        mut keyboard: Keyboard,
    ) -> anyhow::Result<Left> {
        if let Some((cols, rows)) = window()
            && let Err(error) = keyboard.resize(cols, rows).await
        {
            return Ok(Left::Broken(error));
        }
        loop {
            let sent = tokio::select! {
                code = self.interrupts.next() => return Ok(Left::Asked(code)),
                event = events.next() => match event {
                    Some(Ok(TerminalEvent::Output(bytes))) => {
                        write_out(&bytes)?;
                        Ok(())
                    }
                    Some(Ok(TerminalEvent::Exit { exit_code, reason, .. })) => {
                        if reason == EndReason::Lost {
                            write_out(b"\r\nsandboxd: the terminal is gone with its sandbox's container\r\n")?;
                        }
                        return Ok(Left::Ended(u8::try_from(exit_code).unwrap_or(u8::MAX)));
                    }
                    // The bell: what was typed was not taken.
                    Some(Ok(TerminalEvent::NotDone(_))) => write_out(b"\x07").map(|()| Ok(()))?,
                    Some(Ok(TerminalEvent::Size { .. })) => Ok(()),
                    Some(Err(error)) => Err(error),
                    None => return Ok(Left::Broken(Error::HungUp { code: None })),
                },
                typed = self.typed.recv() => match typed.map(|bytes| self.detach.take(&bytes)) {
                    // The caller's terminal hung up.
                    None => return Ok(Left::Asked(0)),
                    // The first of the detach keys is kept back.
                    Some(Typed::Text(text)) if text.is_empty() => Ok(()),
                    Some(Typed::Text(text)) => keyboard.type_in(text).await,
                    Some(Typed::Detach(text)) => {
                        // It leaves either way.
                        let _ = keyboard.type_in(text).await;
                        return Ok(Left::Detached);
                    }
                },
                _ = self.resized.recv() => match window() {
                    Some((cols, rows)) => keyboard.resize(cols, rows).await,
                    None => Ok(()),
                },
            };
            if let Err(error) = sent {
                return Ok(Left::Broken(error));
            }
        }
    }

    /// A moment in which only leaving is possible; what is typed otherwise is for nobody.
    async fn pause(&mut self) -> Option<Left> {
        let until = Instant::now() + RECONNECT_PAUSE;
        loop {
            tokio::select! {
                () = sleep(until.saturating_duration_since(Instant::now())) => return None,
                code = self.interrupts.next() => return Some(Left::Asked(code)),
                typed = self.typed.recv() => match typed.map(|bytes| self.detach.take(&bytes)) {
                    None => return Some(Left::Asked(0)),
                    Some(Typed::Detach(_)) => return Some(Left::Detached),
                    Some(Typed::Text(_)) => {}
                },
            }
        }
    }
}

/// Whether an attempt that failed so may succeed when the daemon is back.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::SocketBroken(_) | Error::SocketDeadline { .. } | Error::HungUp { .. } => true,
        other => other.code().is_some_and(ErrorCode::is_retryable),
    }
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
