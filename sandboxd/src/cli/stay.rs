//! A stay at a terminal of a sandbox: everything between the caller's keyboard and screen and the sandbox's.
//!
//! It lasts across a daemon that is restarted, for a bounded time. What is typed meanwhile is for nobody: it would come
//! to a screen that the one who typed it has not seen.

use std::io::{self, Write};
use std::time::Duration;

use futures::StreamExt;
use sandbox_api::command::EndReason;
use sandbox_api::{ErrorCode, SandboxId, TerminalId};
use sandbox_client::{Client, Error, Keyboard, TerminalEvent, TerminalEvents};
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::detach::{DetachKeys, Typed};
use super::interrupts::Interrupts;
use super::{exit_code, raw_mode};
use crate::model::limits::{MAX_TERMINAL_COLS, MAX_TERMINAL_ROWS};

/// How long a daemon that went away is waited for.
pub(super) const RECONNECT: Duration = Duration::from_secs(60);

/// Pause between two tries.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

/// Before what is kept comes once more: the screen is cleared.
const CLEAR: &[u8] = b"\x1b[m\x1b[H\x1b[2J";

/// How a stay at the terminal ended.
pub(super) enum Left {
    /// Its program ended, with this code.
    Ended(u8),
    /// By the detach keys.
    Detached,
    /// The caller's own terminal is gone, or a signal asked us to end; the exit code.
    Asked(u8),
    /// The connection broke.
    Broken(Error),
}

/// Everything that happens between two terminals.
pub(super) struct Stay<'a> {
    pub(super) client: &'a Client,
    pub(super) sandbox: &'a SandboxId,
    pub(super) terminal: &'a TerminalId,
    pub(super) detach: DetachKeys,
    pub(super) typed: mpsc::Receiver<Vec<u8>>,
    pub(super) resized: Signal,
    pub(super) interrupts: Interrupts,
}

impl Stay<'_> {
    /// Comes back after each break, for as long as the daemon is waited for.
    pub(super) async fn see_it_through(&mut self) -> anyhow::Result<Left> {
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
                        return Ok(Left::Ended(exit_code::of_command(exit_code)));
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

/// The caller's window, as large as a terminal may be.
pub(super) fn window() -> Option<(u32, u32)> {
    let (cols, rows) = raw_mode::window()?;
    Some((cols.min(MAX_TERMINAL_COLS), rows.min(MAX_TERMINAL_ROWS)))
}
