//! Whether a command was ended for its sandbox's want of memory.
//!
//! An agent can only suspect it: what the kernel counts for it to see is the kills of the whole machine. The
//! engine tells of each container's own, a moment before or after the command's end is heard of. So a suspicion
//! that the engine does not confirm is dropped, unless the engine was not listened to at that time. Nothing
//! here is asked for ends that are not suspected.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox_api::CommandId;
use sandbox_api::command::EndReason;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{History, Ledger};
use crate::agent::AgentHandle;
use crate::model::command::{CommandStatus, Started};
use crate::model::{Ended, limits};
use crate::service::clock::now_ms;

/// Number of the signal KILL.
const KILL: i32 = 9;

/// When a sandbox's memory was not enough, as the engine told it: the last times, and since when they are all.
#[derive(Debug)]
pub(super) struct Ooms {
    kept: Mutex<Kept>,
    noted: Notify,
}

#[derive(Debug)]
struct Kept {
    at_ms: VecDeque<i64>,
    complete_from_ms: i64,
}

impl Default for Ooms {
    fn default() -> Self {
        let kept = Kept { at_ms: VecDeque::new(), complete_from_ms: i64::MIN };
        Self { kept: Mutex::new(kept), noted: Notify::new() }
    }
}

impl Ooms {
    /// Notes one, by the engine's clock.
    pub(super) fn note(&self, at_ms: i64) {
        let mut kept = self.lock();
        if kept.at_ms.len() == limits::MAX_NOTED_OOMS
            && let Some(forgotten) = kept.at_ms.pop_front()
        {
            kept.complete_from_ms = forgotten.saturating_add(1);
        }
        kept.at_ms.push_back(at_ms);
        drop(kept);
        self.noted.notify_waiters();
    }

    /// Returns when there was one within `window`.
    async fn any_within(&self, window: &RangeInclusive<i64>) {
        loop {
            let mut noted = pin!(self.noted.notified());
            noted.as_mut().enable();
            if self.lock().at_ms.iter().any(|at| window.contains(at)) {
                return;
            }
            noted.await;
        }
    }

    /// Whether all since `ms` are kept.
    fn is_complete_from(&self, ms: i64) -> bool {
        self.lock().complete_from_ms <= ms
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Since when the engine has been listened to without a break, if it is.
#[derive(Debug)]
pub(super) struct Listening(AtomicI64);

impl Default for Listening {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MAX))
    }
}

impl Listening {
    pub(super) fn begin(&self, since_ms: i64) {
        self.0.store(since_ms, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.0.store(i64::MAX, Ordering::Relaxed);
    }

    fn since(&self, ms: i64) -> bool {
        self.0.load(Ordering::Relaxed) <= ms
    }
}

impl History {
    /// The end of a command as it is told.
    pub(in crate::service) async fn judge(
        &self,
        ledger: &Ledger,
        agent: &AgentHandle,
        command: &CommandId,
        ended: Ended,
    ) -> Ended {
        if ended.reason != EndReason::Oom {
            return ended;
        }
        // Whoever hears only of the end does not know when the command was started.
        match agent.inspect(command).await {
            Ok(status) => self.judge_started(&ledger.ooms, status.started, ended).await,
            Err(_) => ended,
        }
    }

    /// The same in what is known of a command.
    pub(in crate::service) async fn judge_status(
        &self,
        ledger: &Ledger,
        status: CommandStatus,
    ) -> CommandStatus {
        let ended = match status.ended {
            Some(ended) => Some(self.judge_started(&ledger.ooms, status.started, ended).await),
            None => None,
        };
        CommandStatus { ended, ..status }
    }

    async fn judge_started(&self, ooms: &Ooms, started: Started, ended: Ended) -> Ended {
        if ended.reason != EndReason::Oom {
            return ended;
        }
        let window = window_of(started.at_ms, &ended);
        let is_known = || {
            let from = *window.start();
            self.listening.since(from) && ooms.is_complete_from(from)
        };
        if !is_known() {
            return ended;
        }
        // The engine's word may be on its way still. Nobody waits for it twice.
        let left = u64::try_from(window.end().saturating_sub(now_ms())).unwrap_or(0);
        let bound = Duration::from_millis(left).min(limits::OOM_TOLD);
        let told = timeout(bound, ooms.any_within(&window)).await;
        // An engine that hangs tells nothing, and that proves nothing.
        if told.is_ok() || !is_known() || self.engine.version().await.is_err() {
            return ended;
        }
        let reason = if ended.signal.is_some() { EndReason::Killed } else { EndReason::Exited };
        Ended { reason, ..ended }
    }
}

/// When the engine must have told of it, for it to have ended this command. A main process that was killed
/// itself died at once; a shell tells of its child's death when it comes to it.
fn window_of(started_at_ms: i64, ended: &Ended) -> RangeInclusive<i64> {
    let slack = limits::OOM_TOLD.as_millis() as i64;
    let ended_at_ms = started_at_ms.saturating_add(ended.duration.as_millis() as i64);
    let from =
        if ended.signal == Some(KILL) { started_at_ms.max(ended_at_ms - slack) } else { started_at_ms };
    from..=ended_at_ms.saturating_add(slack)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(signal: Option<i32>, seconds: u64) -> Ended {
        Ended { reason: EndReason::Oom, signal, duration: Duration::from_secs(seconds), ..Ended::LOST }
    }

    #[test]
    fn a_process_that_is_killed_dies_at_once_and_its_shell_tells_later() {
        assert_eq!(window_of(1000, &ended(Some(KILL), 60)), 56_000..=66_000);
        assert_eq!(window_of(1000, &ended(None, 60)), 1000..=66_000);
        assert_eq!(window_of(1000, &ended(Some(KILL), 1)), 1000..=7000);
    }

    #[test]
    fn what_was_forgotten_is_not_claimed_to_be_known() {
        let ooms = Ooms::default();
        for at in 0..=limits::MAX_NOTED_OOMS as i64 {
            ooms.note(at);
        }
        assert!(!ooms.is_complete_from(0) && ooms.is_complete_from(1));
    }
}
