//! The deadlines of commands, and how commands ended whose container was restarted.
//!
//! The agent ends a command at its timeout. Processes of its sandbox can keep it from running, so the daemon has a
//! deadline of its own for each command: the timeout and a grace period.

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

/// The commands of one sandbox whose ends are not known yet.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    commands: Mutex<HashMap<CommandId, Pending>>,
    /// Restarts of the container so far.
    restarts: AtomicU64,
}

#[derive(Debug)]
struct Pending {
    /// `None` once somebody is ending it.
    due: Option<Instant>,
    /// How it ended, where its container was restarted meanwhile.
    cut_off: Option<EndReason>,
}

impl Deadlines {
    /// A command runs that times out after `rest`.
    pub(super) fn add(&self, command: CommandId, rest: Duration) {
        let due = Instant::now().checked_add(rest.saturating_add(limits::TIMEOUT_GRACE));
        self.lock().insert(command, Pending { due, cut_off: None });
    }

    /// As [`Self::add`], for a command of an earlier daemon that may be known already.
    pub(super) fn restore(&self, command: CommandId, rest: Duration) {
        let due = Instant::now().checked_add(rest.saturating_add(limits::TIMEOUT_GRACE));
        self.lock().entry(command).or_insert(Pending { due, cut_off: None });
    }

    /// The end of a command is known.
    pub(super) fn remove(&self, command: &CommandId) {
        self.lock().remove(command);
    }

    /// Commands that should have ended before `now`, each once.
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

    /// How often the container was restarted.
    pub(super) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::SeqCst)
    }

    /// The container is about to be restarted, to end the command of `ends` with a reason, if there is one.
    pub(super) fn cut_off(&self, ends: Option<&(CommandId, EndReason)>) {
        self.restarts.fetch_add(1, Ordering::SeqCst);
        for (id, pending) in self.lock().iter_mut() {
            let reason = ends.filter(|(command, _)| id == command).map(|(_, reason)| *reason);
            pending.cut_off = Some(reason.unwrap_or(EndReason::Lost));
        }
    }

    /// How a command ended that its agent does not know any more.
    pub(super) fn end_of(&self, command: &CommandId) -> Option<Ended> {
        let reason = self.lock().get(command)?.cut_off?;
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
        deadlines.cut_off(Some(&(ids[0].clone(), EndReason::Killed)));
        let ends = ids.map(|id| deadlines.end_of(&id).unwrap());
        assert_eq!(
            ends.map(|end| (end.reason, end.exit_code)),
            [(EndReason::Killed, 137), (EndReason::Lost, 137)]
        );
        assert_eq!(ends.map(|end| end.killed_by), [Some(KilledBy::Restart); 2]);
        assert_eq!(deadlines.restarts(), 1);
    }
}
