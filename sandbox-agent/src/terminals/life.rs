//! Follows one terminal from its start to its recorded end.
//!
//! What the main process wrote is on the screen before the end is told. What was started from it and goes on behind
//! it loses the terminal with that, and is not ended; that is for whoever closes the terminal.

use std::sync::Arc;
use std::time::Duration;

use agent_protocol::v1::EndReason;
use rustix::process::{Signal, WaitStatus};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::pty::Pty;
use super::terminal::Terminal;
use crate::ladder;

/// How long a killed main process may take to be collected.
const COLLECT: Duration = Duration::from_secs(5);

/// How long a terminal may be open and silent after the main process's end before the end is recorded.
const DRAIN: Duration = Duration::from_millis(50);

/// Most that is taken during the drain; those who go on writing are not the main process.
const DRAIN_BYTES: usize = 1024 * 1024;

/// The kernel hands over no more than this at once (tty_buffer.c), so a larger buffer would wait for nothing.
const READ_BYTES: usize = 4096;

/// Runs until the end is recorded.
pub(super) async fn run(
    terminal: Arc<Terminal>,
    mut status: oneshot::Receiver<WaitStatus>,
    mut requests: mpsc::UnboundedReceiver<Signal>,
) {
    let (main_ended, main_has_ended) = watch::channel(false);
    let (drained, mut is_drained) = watch::channel(false);
    if let Some(pty) = terminal.pty() {
        tokio::spawn(capture(Arc::clone(&terminal), pty, main_has_ended, drained));
    }
    let requested = tokio::select! {
        biased;
        status = &mut status => Err(status.ok()),
        Some(first) = requests.recv() => Ok(first),
    };
    let collected = match requested {
        Err(status) => status,
        Ok(first) => {
            ladder::end(terminal.as_ref(), first).await;
            timeout(COLLECT, &mut status).await.ok().and_then(Result::ok)
        }
    };
    terminal.main_was_collected();
    main_ended.send_replace(true);
    // It fails where there was nothing to capture.
    let _ = is_drained.wait_for(|drained| *drained).await;
    let signal = collected.and_then(|status| status.terminating_signal());
    let exit_code = match (signal, collected.and_then(|status| status.exit_status())) {
        (Some(signal), _) => 128 + signal,
        (None, Some(code)) => code,
        (None, None) => 128 + Signal::KILL.as_raw(),
    };
    // As with a command, the end is named by how the program ended and not by who asked for it.
    let by_signal = signal.is_some() || collected.is_none();
    let reason = if by_signal { EndReason::Killed } else { EndReason::Exited };
    terminal.finish(reason, exit_code, signal.unwrap_or(0));
}

/// Brings what is written to the terminal's state, until its main process has ended and what it wrote is there.
async fn capture(
    terminal: Arc<Terminal>,
    pty: Arc<Pty>,
    mut main_ended: watch::Receiver<bool>,
    drained: watch::Sender<bool>,
) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = tokio::select! {
            biased;
            _ = main_ended.wait_for(|ended| *ended) => break,
            read = pty.read(&mut buffer) => read,
        };
        match read {
            Ok(bytes) if bytes > 0 => terminal.record(&buffer[..bytes]),
            _ => break,
        }
        // One terminal that is flooded must not keep the agent from all others.
        tokio::task::yield_now().await;
    }
    let _ = main_ended.wait_for(|ended| *ended).await;
    pty.let_go();
    let mut taken = 0;
    while taken < DRAIN_BYTES {
        match timeout_at(Instant::now() + DRAIN, pty.read(&mut buffer)).await {
            Ok(Ok(bytes)) if bytes > 0 => terminal.record(&buffer[..bytes]),
            _ => break,
        }
        taken += READ_BYTES;
    }
    drained.send_replace(true);
}
