//! Follows one command from its start to its recorded end.
//!
//! Owns the timeout and the reason of the end. A command that exceeds its timeout ends as `timeout`. Any other end is
//! named by how the main process ended, no matter who requested it: `killed` if a signal ended it, and `exited` if it
//! exited with a code, even in response to a signal. A request that arrives while the command is ending therefore
//! does not change the reported end. The end is recorded once, after the output of the main process is in the log. If
//! the agent ended the command, it is also recorded after all of its processes are gone. If the output has a file, the
//! file is written by then.

use std::sync::Arc;
use std::time::Duration;

use agent_protocol::v1::{self, EndReason};
use rustix::process::{Signal, WaitStatus};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::capture::Capture;
use crate::command::Command;
use crate::oom;
use crate::output::Stream;
use crate::resource_limits::{self, Exceeded};
use crate::stages::Stages;
use crate::termination::{self, Reach};

/// Exit code of a command that exceeded its timeout, as in timeout(1).
const TIMEOUT_EXIT_CODE: i32 = 124;

/// How long to wait for a killed main process to be reaped. One that hangs in the kernel for longer ends with the
/// container.
const COLLECT: Duration = Duration::from_secs(5);

/// The command, the status of its main process, and the requests to end it.
pub(crate) struct Supervisor {
    pub(crate) command: Arc<Command>,
    pub(crate) status: oneshot::Receiver<WaitStatus>,
    pub(crate) requests: mpsc::UnboundedReceiver<Signal>,
    pub(crate) oom_kills_before: Option<u64>,
    /// The stages that are reported before the end.
    pub(crate) stages: Option<Stages>,
}

/// Why the agent ends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Timeout,
    Limit(Exceeded),
    Kill,
}

/// What ended the command.
enum Cause {
    Exited,
    Agent { request: Request, reach: Reach },
}

impl Supervisor {
    /// Runs until the end is recorded. Later output is still captured.
    pub(crate) async fn run(mut self, capture: Capture) {
        let (main_ended, main_has_ended) = watch::channel(false);
        let (drained, mut is_drained) = watch::channel(false);
        tokio::spawn(capture.run(Arc::clone(&self.command), main_has_ended, drained));

        let (cause, status) = self.wait_or_end().await;
        self.command.set_main_collected();
        main_ended.send_replace(true);
        // The capture task outlives this wait. If it were gone, there would be nothing to wait for.
        let _ = is_drained.wait_for(|drained| *drained).await;
        let verdict = self.verdict(&cause, status);
        self.report_stages(verdict.reason == EndReason::Exited as i32);
        let output_file = self.command.output_file().await;
        self.command.finish(v1::Ended { output_file, ..verdict });
    }

    fn report_stages(&mut self, has_exited: bool) {
        let Some(stages) = self.stages.take() else { return };
        for report in stages.reports(has_exited, self.command.spec.secrets.as_ref()) {
            self.command.record(Stream::Stage, report.into());
        }
    }

    /// Waits for the end of the main process, or brings it about.
    async fn wait_or_end(&mut self) -> (Cause, Option<WaitStatus>) {
        let deadline = self.command.spec.timeout.map(|limit| Instant::from_std(self.command.started) + limit);
        let expired = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let (request, first) = tokio::select! {
            biased;
            status = &mut self.status => {
                self.command.set_main_collected();
                return (self.end_excess().await, status.ok());
            }
            // Before the requests, because sandboxd also requests the end of a command whose timeout was missed.
            () = expired => (Request::Timeout, Signal::TERM),
            exceeded = resource_limits::exceeded(&self.command) => (Request::Limit(exceeded), Signal::KILL),
            Some(first) = self.requests.recv() => (Request::Kill, first),
        };
        let reach = termination::end(self.command.as_ref(), first).await;
        let status = timeout(COLLECT, &mut self.status).await.ok().and_then(Result::ok);
        (Cause::Agent { request, reach }, status)
    }

    /// Ends the processes that the main process has left behind, if they are more than the command's limit.
    async fn end_excess(&self) -> Cause {
        let Some(exceeded) = resource_limits::exceeded_by_rest(&self.command) else { return Cause::Exited };
        let reach = termination::end(self.command.as_ref(), Signal::KILL).await;
        Cause::Agent { request: Request::Limit(exceeded), reach }
    }

    fn verdict(&self, cause: &Cause, status: Option<WaitStatus>) -> v1::Ended {
        let signal = status.and_then(|status| status.terminating_signal());
        let shell_code = match (signal, status.and_then(|status| status.exit_status())) {
            (Some(signal), _) => 128 + signal,
            (None, Some(code)) => code,
            (None, None) => 128 + Signal::KILL.as_raw(),
        };
        let swept = matches!(cause, Cause::Agent { reach: Reach::WholeSandbox, .. });
        // A main process that was not reaped in time was sent SIGKILL.
        let by_signal = signal.is_some() || status.is_none();
        let (reason, exit_code) = match cause {
            Cause::Agent { request: Request::Timeout, .. } => (EndReason::Timeout, TIMEOUT_EXIT_CODE),
            Cause::Agent { request: Request::Limit(_), .. } => {
                (EndReason::Killed, 128 + Signal::KILL.as_raw())
            }
            Cause::Exited if self.looks_like_oom(shell_code) => (EndReason::Oom, shell_code),
            Cause::Agent { request: Request::Kill, .. } | Cause::Exited if by_signal => {
                (EndReason::Killed, shell_code)
            }
            Cause::Agent { request: Request::Kill, .. } | Cause::Exited => (EndReason::Exited, shell_code),
        };
        let exceeded = match cause {
            Cause::Agent { request: Request::Limit(exceeded), .. } => Some(*exceeded),
            Cause::Exited => resource_limits::exceeded_by_bash(self.command.spec.resource_limits, signal)
                .or_else(|| resource_limits::exceeded_by_output(&self.command)),
            Cause::Agent { .. } => None,
        };
        v1::Ended {
            exceeded_limit: exceeded.map_or(0, |exceeded| exceeded.limit as i32),
            exceeded_value: exceeded.map_or(0, |exceeded| exceeded.value),
            reason: reason as i32,
            exit_code,
            signal: signal.unwrap_or(0),
            swept,
            ..v1::Ended::default()
        }
    }

    /// Whether the OOM killer ran while this command, or its last child, died of SIGKILL.
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
