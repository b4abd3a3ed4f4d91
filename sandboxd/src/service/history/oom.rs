//! Whether the OOM killer ended a command.
//!
//! An agent can only suspect it, because the kernel shows it the number of kills on the whole machine. The engine reports
//! those of each container, a moment before or after the command's end arrives. Therefore a suspicion that the engine does
//! not confirm is dropped, unless the engine's events were not received at that time. An end without suspicion needs no
//! confirmation.

use std::ops::RangeInclusive;
use std::time::Duration;

use sandbox_api::CommandId;
use sandbox_api::command::EndReason;
use tokio::time::timeout;

use super::oom_times::Ooms;
use super::{History, Ledger};
use crate::agent::AgentHandle;
use crate::model::command::{CommandStatus, Started};
use crate::model::{Ended, limits};
use crate::service::clock::now_ms;

/// Number of the signal KILL.
const KILL: i32 = 9;

impl History {
    /// Checks a suspected out-of-memory kill with the engine. Without confirmation, the reason becomes that of an ordinary
    /// end.
    pub(in crate::service) async fn confirm_oom(
        &self,
        ledger: &Ledger,
        agent: &AgentHandle,
        command: &CommandId,
        ended: Ended,
    ) -> Ended {
        if ended.reason != EndReason::Oom {
            return ended;
        }
        // The end alone does not say when the command started.
        match agent.inspect(command).await {
            Ok(status) => self.confirm_oom_since(&ledger.ooms, status.started, ended).await,
            Err(_) => ended,
        }
    }

    /// Like [`Self::confirm_oom`], for an interpreter that was killed during a run. Returns whether memory was short.
    pub(in crate::service) async fn confirm_oom_of_run(
        &self,
        ledger: &Ledger,
        started_at_ms: i64,
        duration: Duration,
    ) -> bool {
        let started = Started { at_ms: started_at_ms, timeout: duration, detached: false };
        let ended = Ended { reason: EndReason::Oom, signal: Some(KILL), duration, ..Ended::LOST };
        self.confirm_oom_since(&ledger.ooms, started, ended).await.reason == EndReason::Oom
    }

    /// Like [`Self::confirm_oom`], for the status of a command.
    pub(in crate::service) async fn confirm_oom_in_status(
        &self,
        ledger: &Ledger,
        status: CommandStatus,
    ) -> CommandStatus {
        let ended = match status.ended {
            Some(ended) => Some(self.confirm_oom_since(&ledger.ooms, status.started, ended).await),
            None => None,
        };
        CommandStatus { ended, ..status }
    }

    async fn confirm_oom_since(&self, ooms: &Ooms, started: Started, ended: Ended) -> Ended {
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
        // The engine's event may still arrive. The wait ends with the window, so a later call does not wait again.
        let left = u64::try_from(window.end().saturating_sub(now_ms())).unwrap_or(0);
        let bound = Duration::from_millis(left).min(limits::OOM_REPORT);
        let confirmed = timeout(bound, ooms.any_within(&window)).await;
        // An engine that hangs reports no events, so their absence proves nothing.
        if confirmed.is_ok() || !is_known() || self.engine.version().await.is_err() {
            return ended;
        }
        let reason = if ended.signal.is_some() { EndReason::Killed } else { EndReason::Exited };
        Ended { reason, ..ended }
    }
}

/// Returns the period in which the engine must have reported the kill for it to be the cause of this command's end. A main
/// process that is killed itself dies at once. A shell may report its child's death much later.
fn window_of(started_at_ms: i64, ended: &Ended) -> RangeInclusive<i64> {
    let slack = limits::OOM_REPORT.as_millis() as i64;
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
    fn the_window_is_short_for_a_killed_process_and_long_for_its_shell() {
        assert_eq!(window_of(1000, &ended(Some(KILL), 60)), 56_000..=66_000);
        assert_eq!(window_of(1000, &ended(None, 60)), 1000..=66_000);
        assert_eq!(window_of(1000, &ended(Some(KILL), 1)), 1000..=7000);
    }
}
