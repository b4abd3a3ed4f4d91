//! Follows one command from its start to its recorded end.
//!
//! Owns the clock and the reason. A command whose timeout expired while it ran ends as `timeout`. Any other end is
//! named by how the main process ended and not by who asked for it: `killed` if a signal ended it, and `exited` if it
//! chose an exit code, also in answer to a signal. So a request that meets a command at its end changes nothing that
//! it reports. The end is recorded once, after the output of the main
//! process is in the log and, where the command was ended by us, after nothing of it is left.

use std::sync::Arc;
use std::time::Duration;

use agent_protocol::v1::{self, EndReason};
use rustix::process::{Signal, WaitStatus};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::capture::Capture;
use crate::command::Command;
use crate::ladder::{self, Gone};
use crate::oom;

/// Exit code of a command that ran out of time, as timeout(1) has it.
const TIMEOUT_EXIT_CODE: i32 = 124;

/// How long a killed main process may take to be collected. One that hangs in the kernel for longer is
/// left to the end of the container.
const COLLECT: Duration = Duration::from_secs(5);

/// The command's main process and everything that speaks of its end.
pub(crate) struct Supervisor {
    pub(crate) command: Arc<Command>,
    pub(crate) status: oneshot::Receiver<WaitStatus>,
    pub(crate) requests: mpsc::UnboundedReceiver<Signal>,
    pub(crate) oom_kills_before: Option<u64>,
}

/// Why the agent ends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Timeout,
    Kill,
}

/// What ended the command, as far as we are concerned.
enum Cause {
    Itself(Option<WaitStatus>),
    Us { request: Request, gone: Gone },
}

impl Supervisor {
    /// Runs until the end is recorded. Output that comes later goes on being captured.
    pub(crate) async fn run(mut self, capture: Capture) {
        let (main_ended, main_has_ended) = watch::channel(false);
        let (drained, mut is_drained) = watch::channel(false);
        tokio::spawn(capture.run(Arc::clone(&self.command), main_has_ended, drained));

        let cause = self.wait_or_end().await;
        let status = match &cause {
            Cause::Itself(status) => *status,
            Cause::Us { .. } => timeout(COLLECT, &mut self.status).await.ok().and_then(Result::ok),
        };
        self.command.main_was_collected();
        main_ended.send_replace(true);
        // The capture task lives as long as this; were it gone there would be nothing to wait for.
        let _ = is_drained.wait_for(|drained| *drained).await;
        self.command.finish(self.verdict(&cause, status));
    }

    async fn wait_or_end(&mut self) -> Cause {
        let deadline = self.command.spec.timeout.map(|limit| Instant::from_std(self.command.started) + limit);
        let expired = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let (request, first) = tokio::select! {
            biased;
            status = &mut self.status => return Cause::Itself(status.ok()),
            // Before requests: sandboxd asks for the end of a command whose timeout was missed.
            () = expired => (Request::Timeout, Signal::TERM),
            Some(first) = self.requests.recv() => (Request::Kill, first),
        };
        let gone = ladder::end(self.command.as_ref(), first).await;
        Cause::Us { request, gone }
    }

    fn verdict(&self, cause: &Cause, status: Option<WaitStatus>) -> v1::Ended {
        let signal = status.and_then(|status| status.terminating_signal());
        let shell_code = match (signal, status.and_then(|status| status.exit_status())) {
            (Some(signal), _) => 128 + signal,
            (None, Some(code)) => code,
            (None, None) => 128 + Signal::KILL.as_raw(),
        };
        let swept = matches!(cause, Cause::Us { gone: Gone::Swept, .. });
        // A main process that was not collected in time is in the hands of KILL.
        let by_signal = signal.is_some() || status.is_none();
        let (reason, exit_code) = match cause {
            Cause::Us { request: Request::Timeout, .. } => (EndReason::Timeout, TIMEOUT_EXIT_CODE),
            Cause::Itself(_) if self.looks_like_oom(shell_code) => (EndReason::Oom, shell_code),
            Cause::Us { request: Request::Kill, .. } | Cause::Itself(_) if by_signal => {
                (EndReason::Killed, shell_code)
            }
            Cause::Us { request: Request::Kill, .. } | Cause::Itself(_) => (EndReason::Exited, shell_code),
        };
        v1::Ended {
            reason: reason as i32,
            exit_code,
            signal: signal.unwrap_or(0),
            swept,
            ..v1::Ended::default()
        }
    }

    /// Whether the kernel killed for memory while this command died of a KILL, itself or its last child.
    fn looks_like_oom(&self, shell_code: i32) -> bool {
        if shell_code != 128 + Signal::KILL.as_raw() {
            return false;
        }
        match (self.oom_kills_before, oom::kills_so_far()) {
            (Some(before), Some(now)) => now > before,
            _ => false,
        }
    }
}
