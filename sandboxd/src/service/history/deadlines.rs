//! Deadlines of commands, and the ends of commands whose container was restarted.
//!
//! The agent ends a command at its timeout. Processes of its sandbox can stop the agent from running. So the daemon has
//! its own deadline for each command: the timeout and a grace period.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox_api::CommandId;
use sandbox_api::command::EndReason;

use crate::model::command::KilledBy;
use crate::model::{Ended, limits};

/// SIGKILL of signal(7).
const KILL: i32 = 9;

/// Commands of one sandbox whose end is not known yet.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    commands: Mutex<HashMap<CommandId, Pending>>,
    /// Number of restarts of the container.
    restarts: AtomicU64,
}

#[derive(Debug)]
struct Pending {
    /// `None` as soon as a task ends the command.
    due: Option<Instant>,
    /// Reason of its end, if its container was restarted in the meantime.
    end_reason: Option<EndReason>,
}

impl Deadlines {
    /// Adds a running command that times out after `rest`.
    pub(super) fn add(&self, command: CommandId, rest: Duration) {
        let due = Instant::now().checked_add(rest.saturating_add(limits::TIMEOUT_GRACE));
        self.lock().insert(command, Pending { due, end_reason: None });
    }

    /// Like [`Self::add`], for a command of an earlier daemon. Keeps an existing deadline.
    pub(super) fn restore(&self, command: CommandId, rest: Duration) {
        let due = Instant::now().checked_add(rest.saturating_add(limits::TIMEOUT_GRACE));
        self.lock().entry(command).or_insert(Pending { due, end_reason: None });
    }

    /// Removes a command whose end is known.
    pub(super) fn remove(&self, command: &CommandId) {
        self.lock().remove(command);
    }

    /// Commands that should have ended before `now`. Each is returned once.
    pub(super) fn take_overdue(&self, now: Instant) -> Vec<CommandId> {
        let mut commands = self.lock();
        let overdue = commands.iter_mut().filter(|(_, pending)| pending.due.is_some_and(|due| due <= now));
        overdue
            .map(|(command, pending)| {
                pending.due = None;
                command.clone()
            })
            .collect()
    }

    /// Number of restarts of the container.
    pub(super) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::SeqCst)
    }

    /// Records that the container is about to be restarted. If `ends` names a command, it ends with that reason, and every
    /// other one is lost.
    pub(super) fn record_restart(&self, ends: Option<&(CommandId, EndReason)>) {
        self.restarts.fetch_add(1, Ordering::SeqCst);
        for (id, pending) in self.lock().iter_mut() {
            let reason = ends.filter(|(command, _)| id == command).map(|(_, reason)| *reason);
            pending.end_reason = Some(reason.unwrap_or(EndReason::Lost));
        }
    }

    /// Returns the end of a command that its agent no longer knows, if a restart ended it.
    pub(super) fn end_of(&self, command: &CommandId) -> Option<Ended> {
        let reason = self.lock().get(command)?.end_reason?;
        let signal = (reason != EndReason::Lost).then_some(KILL);
        let exit_code = if reason == EndReason::Timeout { limits::TIMEOUT_EXIT_CODE } else { 128 + KILL };
        Some(Ended { reason, exit_code, signal, killed_by: Some(KilledBy::Restart), ..Ended::LOST })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CommandId, Pending>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_overdue_once_and_after_its_grace_period() {
        let deadlines = Deadlines::default();
        let command: CommandId = "cmd_0123456789abcdef".parse().unwrap();
        deadlines.add(command.clone(), Duration::from_secs(1));
        let due = Instant::now() + Duration::from_secs(1) + limits::TIMEOUT_GRACE;
        assert_eq!(deadlines.take_overdue(Instant::now()), []);
        assert_eq!(deadlines.take_overdue(due), std::slice::from_ref(&command));
        assert_eq!(deadlines.take_overdue(due), []);
        deadlines.add(command.clone(), Duration::from_secs(1));
        deadlines.remove(&command);
        assert_eq!(deadlines.take_overdue(due), []);
    }

    #[test]
    fn a_restart_ends_the_command_it_was_for_and_loses_the_others() {
        let deadlines = Deadlines::default();
        let ids: [CommandId; 2] =
            ["cmd_0123456789abcdef", "cmd_0123456789abcde0"].map(|id| id.parse().unwrap());
        for id in &ids {
            deadlines.add(id.clone(), Duration::from_secs(1));
            assert_eq!(deadlines.end_of(id), None);
        }
        deadlines.record_restart(Some(&(ids[0].clone(), EndReason::Killed)));
        let ends = ids.map(|id| deadlines.end_of(&id).unwrap());
        assert_eq!(
            ends.map(|end| (end.reason, end.exit_code, end.killed_by)),
            [EndReason::Killed, EndReason::Lost].map(|reason| (reason, 137, Some(KilledBy::Restart)))
        );
        assert_eq!(deadlines.restarts(), 1);
    }
}
