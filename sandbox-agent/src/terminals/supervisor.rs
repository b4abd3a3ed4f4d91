//! Follows one terminal from its start to its recorded end.
//!
//! The output of the main process is on the screen before the end is reported. Processes that it started and that are
//! still running lose the terminal, but they are not ended. Closing the terminal ends them.

use std::sync::Arc;
use std::time::Duration;

use agent_protocol::v1::EndReason;
use rustix::process::{Signal, WaitStatus};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::output::Output;
use super::pty::Pty;
use super::terminal::Terminal;
use crate::secrets::Secrets;
use crate::termination;

/// Maximum time to reap a killed main process.
const COLLECT: Duration = Duration::from_secs(5);

/// How long a terminal may be open and silent after the end of the main process before the end is recorded.
const DRAIN: Duration = Duration::from_millis(50);

/// Maximum number of bytes that the drain reads. Anything beyond was written by other processes.
const DRAIN_BYTES: usize = 1024 * 1024;

/// The kernel passes on at most this much at once (tty_buffer.c), so a larger buffer has no effect.
const READ_BYTES: usize = 4096;

/// Runs until the end is recorded.
pub(super) async fn run(
    terminal: Arc<Terminal>,
    mut status: oneshot::Receiver<WaitStatus>,
    mut requests: mpsc::UnboundedReceiver<Signal>,
    secrets: Option<Arc<Secrets>>,
) {
    let (main_ended, main_has_ended) = watch::channel(false);
    let (drained, mut is_drained) = watch::channel(false);
    if let Some(pty) = terminal.pty() {
        let output = Output::new(Arc::clone(&terminal), secrets);
        tokio::spawn(capture(output, pty, main_has_ended, drained));
    }
    let requested = tokio::select! {
        biased;
        status = &mut status => Err(status.ok()),
        Some(first) = requests.recv() => Ok(first),
    };
    let reaped = match requested {
        Err(status) => status,
        Ok(first) => {
            termination::end(terminal.as_ref(), first).await;
            timeout(COLLECT, &mut status).await.ok().and_then(Result::ok)
        }
    };
    terminal.set_main_collected();
    main_ended.send_replace(true);
    // Fails if there was nothing to capture.
    let _ = is_drained.wait_for(|drained| *drained).await;
    let signal = reaped.and_then(|status| status.terminating_signal());
    let exit_code = match (signal, reaped.and_then(|status| status.exit_status())) {
        (Some(signal), _) => 128 + signal,
        (None, Some(code)) => code,
        (None, None) => 128 + Signal::KILL.as_raw(),
    };
    // As for a command, the end is named by how the program ended, no matter who requested it.
    let by_signal = signal.is_some() || reaped.is_none();
    let reason = if by_signal { EndReason::Killed } else { EndReason::Exited };
    terminal.finish(reason, exit_code, signal.unwrap_or(0));
}

/// Adds output to the terminal's state, until the main process has ended and all of its output is added.
async fn capture(
    mut output: Output,
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
            () = output.held_long_enough() => {
                output.release();
                continue;
            }
        };
        match read {
            Ok(bytes) if bytes > 0 => output.add(&buffer[..bytes]),
            _ => break,
        }
        // A terminal with a flood of output must not keep the agent from serving others.
        tokio::task::yield_now().await;
    }
    let _ = main_ended.wait_for(|ended| *ended).await;
    pty.close_program_side();
    let mut taken = 0;
    while taken < DRAIN_BYTES {
        match timeout_at(Instant::now() + DRAIN, pty.read(&mut buffer)).await {
            Ok(Ok(bytes)) if bytes > 0 => output.add(&buffer[..bytes]),
            _ => break,
        }
        taken += READ_BYTES;
    }
    output.release();
    drained.send_replace(true);
}
