//! Connects the user's terminal to a terminal of a sandbox.
//!
//! It reconnects when the daemon restarts, for a limited time. Input in that time is discarded, because the user cannot
//! see the screen that it would go to.

use std::io::{self, Write};
use std::time::Duration;

use futures::StreamExt;
use sandbox_api::command::EndReason;
use sandbox_api::{ErrorCode, SandboxId, TerminalId};
use sandbox_client::{Client, Error, Keyboard, TerminalEvent, TerminalEvents};
use tokio::signal::unix::Signal;
use tokio::time::{Instant, sleep};

use super::detach::{DetachKeys, Input};
use super::interrupts::Interrupts;
use super::raw_mode::TypedKeys;
use super::{exit_code, raw_mode};
use sandboxd_model::limits::{MAX_TERMINAL_COLS, MAX_TERMINAL_ROWS};

/// Maximum time to reconnect.
pub(super) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two attempts to reconnect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

/// Clears the screen before the kept output is sent again.
const CLEAR: &[u8] = b"\x1b[m\x1b[H\x1b[2J";

/// How an attachment ended.
pub(super) enum AttachmentEnd {
    /// The terminal's program ended with this exit code.
    Exited(u8),
    /// The user pressed the detach keys.
    Detached,
    /// The user's own terminal was closed, or a signal arrived. Contains the exit code.
    Interrupted(u8),
    /// The connection broke.
    Disconnected(Error),
}

/// A connection between the user's terminal and a terminal of a sandbox.
pub(super) struct Attachment<'a> {
    pub(super) client: &'a Client,
    pub(super) sandbox: &'a SandboxId,
    pub(super) terminal: &'a TerminalId,
    pub(super) detach: DetachKeys,
    pub(super) input: TypedKeys,
    pub(super) resized: Signal,
    pub(super) interrupts: Interrupts,
}

impl Attachment<'_> {
    /// Runs until the attachment ends. Reconnects when the connection breaks.
    pub(super) async fn run(&mut self) -> anyhow::Result<AttachmentEnd> {
        let mut broken_since = None;
        loop {
            let error = match self.client.attach_terminal(self.sandbox, self.terminal).await {
                Ok((events, keyboard)) => {
                    if broken_since.take().is_some() {
                        write_out(CLEAR)?;
                    }
                    match self.relay(events, keyboard).await? {
                        AttachmentEnd::Disconnected(error) => error,
                        end => return Ok(end),
                    }
                }
                Err(error) if !is_retryable(&error) => return Err(error.into()),
                Err(error) => error,
            };
            let since = *broken_since.get_or_insert_with(|| {
                // The screen is cleared of this line after the reconnect.
                let _ = write_out(b"\r\nsandboxd: connection lost; waiting for the daemon\r\n");
                Instant::now()
            });
            if since.elapsed() > RECONNECT_TIMEOUT {
                return Ok(AttachmentEnd::Disconnected(error));
            }
            if let Some(end) = self.pause().await {
                return Ok(end);
            }
        }
    }

    /// Relays input and output until the connection ends.
    async fn relay(
        &mut self,
        mut events: TerminalEvents,
        mut keyboard: Keyboard,
    ) -> anyhow::Result<AttachmentEnd> {
        if let Some((cols, rows)) = window()
            && let Err(error) = keyboard.resize(cols, rows).await
        {
            return Ok(AttachmentEnd::Disconnected(error));
        }
        loop {
            let sent = tokio::select! {
                code = self.interrupts.next() => return Ok(AttachmentEnd::Interrupted(code)),
                event = events.next() => match event {
                    Some(Ok(TerminalEvent::Output(bytes))) => {
                        write_out(&bytes)?;
                        Ok(())
                    }
                    Some(Ok(TerminalEvent::Exit { exit_code, reason, .. })) => {
                        if reason == EndReason::Lost {
                            write_out(b"\r\nsandboxd: the terminal ended with the sandbox's container\r\n")?;
                        }
                        return Ok(AttachmentEnd::Exited(exit_code::of_command(exit_code)));
                    }
                    // The input was not accepted, so the bell rings.
                    Some(Ok(TerminalEvent::NotDone(_))) => write_out(b"\x07").map(|()| Ok(()))?,
                    Some(Ok(TerminalEvent::Size { .. })) => Ok(()),
                    Some(Err(error)) => Err(error),
                    None => return Ok(AttachmentEnd::Disconnected(Error::SocketClosed { code: None })),
                },
                input = self.input.recv() => match input.map(|bytes| self.detach.scan(&bytes)) {
                    // The user's terminal was closed.
                    None => return Ok(AttachmentEnd::Interrupted(0)),
                    // The detach keys so far are held back.
                    Some(Input::Text(text)) if text.is_empty() => Ok(()),
                    Some(Input::Text(text)) => keyboard.type_in(text).await,
                    Some(Input::Detach(text)) => {
                        // Detaches even if the text cannot be sent.
                        let _ = keyboard.type_in(text).await;
                        return Ok(AttachmentEnd::Detached);
                    }
                },
                _ = self.resized.recv() => match window() {
                    Some((cols, rows)) => keyboard.resize(cols, rows).await,
                    None => Ok(()),
                },
            };
            if let Err(error) = sent {
                return Ok(AttachmentEnd::Disconnected(error));
            }
        }
    }

    /// Pauses before the next attempt. Only detaching is possible. Other input is discarded.
    async fn pause(&mut self) -> Option<AttachmentEnd> {
        let until = Instant::now() + RECONNECT_PAUSE;
        loop {
            tokio::select! {
                () = sleep(until.saturating_duration_since(Instant::now())) => return None,
                code = self.interrupts.next() => return Some(AttachmentEnd::Interrupted(code)),
                input = self.input.recv() => match input.map(|bytes| self.detach.scan(&bytes)) {
                    None => return Some(AttachmentEnd::Interrupted(0)),
                    Some(Input::Detach(_)) => return Some(AttachmentEnd::Detached),
                    Some(Input::Text(_)) => {}
                },
            }
        }
    }
}

/// Whether a retry may succeed after the daemon has restarted.
fn is_retryable(error: &Error) -> bool {
    match error {
        Error::SocketBroken(_) | Error::SocketDeadline { .. } | Error::SocketClosed { .. } => true,
        other => other.code().is_some_and(ErrorCode::is_retryable),
    }
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Size of the user's window in columns and rows, at most the maximum size of a terminal.
pub(super) fn window() -> Option<(u32, u32)> {
    let (cols, rows) = raw_mode::window()?;
    Some((cols.min(MAX_TERMINAL_COLS), rows.min(MAX_TERMINAL_ROWS)))
}
