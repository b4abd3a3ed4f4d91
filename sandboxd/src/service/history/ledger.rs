//! In-memory part of one sandbox's history: what is known of its commands and is not in the store.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox_api::command::EndReason;
use sandbox_api::{CommandId, SandboxId};

use super::deadlines::Deadlines;
use super::oom_times::Ooms;

/// In-memory history of one sandbox.
#[derive(Debug)]
pub(in crate::service) struct Ledger {
    pub(super) sandbox: SandboxId,
    pub(super) ooms: Ooms,
    pub(super) deadlines: Deadlines,
    /// Commands whose end a background task waits for.
    watched: Mutex<HashSet<CommandId>>,
    unrecorded: AtomicBool,
}

impl Ledger {
    pub(in crate::service) fn new(sandbox: SandboxId) -> Self {
        Self {
            sandbox,
            ooms: Ooms::default(),
            deadlines: Deadlines::default(),
            watched: Mutex::default(),
            unrecorded: AtomicBool::new(false),
        }
    }

    /// Records that the kernel killed a process of the sandbox for lack of memory, by the engine's clock.
    pub(in crate::service) fn note_oom(&self, at_ms: i64) {
        self.ooms.note(at_ms);
    }

    /// Number of restarts of the container by this daemon.
    pub(in crate::service) fn restarts(&self) -> u64 {
        self.deadlines.restarts()
    }

    /// Records that the container is about to be restarted. If `ends` names a command, it ends with that reason, and every
    /// other one is lost.
    pub(in crate::service) fn record_restart(&self, ends: Option<&(CommandId, EndReason)>) {
        self.deadlines.record_restart(ends);
    }

    /// Commands that should have ended before `now`. Each is returned once.
    pub(in crate::service) fn take_overdue(&self, now: Instant) -> Vec<CommandId> {
        self.deadlines.take_overdue(now)
    }

    /// Sets the deadline of a command that an earlier daemon started, unless it has one.
    pub(in crate::service) fn restore_deadline(&self, command: CommandId, rest: Duration) {
        self.deadlines.restore(command, rest);
    }

    /// Registers a watcher of the command. Returns false if there already is one.
    pub(in crate::service) fn begin_watch(&self, command: &CommandId) -> bool {
        self.watched().insert(command.clone())
    }

    pub(in crate::service) fn end_watch(&self, command: &CommandId) {
        self.watched().remove(command);
    }

    /// Whether the agent may know commands that the store lacks.
    pub(in crate::service) fn is_unrecorded(&self) -> bool {
        self.unrecorded.load(Ordering::Acquire)
    }

    pub(in crate::service) fn set_unrecorded(&self, unrecorded: bool) {
        self.unrecorded.store(unrecorded, Ordering::Release);
    }

    fn watched(&self) -> MutexGuard<'_, HashSet<CommandId>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
