//! The use of a sandbox, and since when it is idle.
//!
//! Idle time is measured by the monotonic clock. The wall clock may jump, so it only serves for display.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::service::clock::now_ms;
use crate::service::quotas::Charge;

/// Counts the requests and commands that use one sandbox.
#[derive(Debug)]
pub(in crate::service) struct Activity {
    users: AtomicUsize,
    commands: AtomicUsize,
    passive_commands: AtomicUsize,
    since: Instant,
    /// Milliseconds after `since`.
    last_used: AtomicU64,
    /// Milliseconds since the Unix epoch.
    last_used_wall: AtomicI64,
}

impl Activity {
    /// Idle since now. `wall_ms` is the time of the last use for display.
    pub(in crate::service) fn new(wall_ms: i64) -> Self {
        Self {
            users: AtomicUsize::new(0),
            commands: AtomicUsize::new(0),
            passive_commands: AtomicUsize::new(0),
            since: Instant::now(),
            last_used: AtomicU64::new(0),
            last_used_wall: AtomicI64::new(wall_ms),
        }
    }

    /// Records a use of the sandbox now.
    pub(in crate::service) fn touch(&self) {
        self.last_used.store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.last_used_wall.store(now_ms(), Ordering::Relaxed);
    }

    /// Whether a request or a command uses the sandbox.
    pub(in crate::service) fn is_used(&self) -> bool {
        self.users.load(Ordering::SeqCst) > 0
    }

    /// Number of running commands.
    pub(in crate::service) fn commands(&self) -> usize {
        self.commands.load(Ordering::SeqCst)
    }

    /// Number of running commands that do not keep the sandbox in use.
    pub(in crate::service) fn passive_commands(&self) -> usize {
        self.passive_commands.load(Ordering::SeqCst)
    }

    /// How long the sandbox has been idle. Zero while it is used.
    pub(in crate::service) fn idle_for(&self) -> Duration {
        if self.is_used() {
            return Duration::ZERO;
        }
        let used_at = Duration::from_millis(self.last_used.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(used_at)
    }

    /// Time of the last use by the wall clock, in milliseconds since the Unix epoch. The current time while it is used.
    pub(in crate::service) fn last_used_wall_ms(&self) -> i64 {
        if self.is_used() {
            return now_ms();
        }
        self.last_used_wall.load(Ordering::Relaxed)
    }
}

/// Marks a sandbox as in use by a request or a command, until it is dropped. The mark of a passive command only counts the
/// command.
#[derive(Debug)]
pub(in crate::service) struct InUseMark {
    activity: Arc<Activity>,
    kind: Kind,
    /// Whether dropping it records a use of the sandbox.
    counts: AtomicBool,
    /// What the project is charged for the command.
    charge: Option<Charge>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    Command,
    PassiveCommand,
}

impl InUseMark {
    /// Marks the use by a request.
    pub(in crate::service) fn request(activity: &Arc<Activity>) -> Self {
        Self::new(activity, Kind::Request)
    }

    /// Marks the use by a command, or counts a passive one.
    pub(in crate::service) fn command(activity: &Arc<Activity>, is_passive: bool) -> Self {
        Self::new(activity, if is_passive { Kind::PassiveCommand } else { Kind::Command })
    }

    fn new(activity: &Arc<Activity>, kind: Kind) -> Self {
        for counter in activity.counters(kind) {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        let counts = AtomicBool::new(kind != Kind::PassiveCommand);
        Self { activity: Arc::clone(activity), kind, counts, charge: None }
    }

    /// Holds what the project is charged for the command.
    #[must_use]
    pub(in crate::service) fn holding(self, charge: Charge) -> Self {
        // Not by an update of the struct, which has a destructor.
        let mut mark = self;
        mark.charge = Some(charge);
        mark
    }

    /// Does not count this request as use. The idle time continues from the use before it.
    pub(in crate::service) fn do_not_count(&self) {
        self.counts.store(false, Ordering::Relaxed);
    }
}

impl Activity {
    fn counters(&self, kind: Kind) -> impl Iterator<Item = &AtomicUsize> {
        let counters = match kind {
            Kind::Request => [Some(&self.users), None],
            Kind::Command => [Some(&self.commands), Some(&self.users)],
            Kind::PassiveCommand => [Some(&self.passive_commands), None],
        };
        counters.into_iter().flatten()
    }
}

impl Drop for InUseMark {
    fn drop(&mut self) {
        // First, because a client that sees the end of the command may start another one.
        drop(self.charge.take());
        if self.counts.load(Ordering::Relaxed) {
            self.activity.touch();
        }
        for counter in self.activity.counters(self.kind) {
            counter.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_call_does_not_count_as_use() {
        let activity = Arc::new(Activity::new(7));
        let rejected = InUseMark::request(&activity);
        assert_eq!(activity.idle_for(), Duration::ZERO);
        rejected.do_not_count();
        drop(rejected);
        assert_eq!(activity.last_used_wall_ms(), 7);
        drop(InUseMark::request(&activity));
        assert!(activity.last_used_wall_ms() > 7);
    }

    #[test]
    fn a_sandbox_in_use_is_not_idle() {
        let activity = Arc::new(Activity::new(0));
        let request = InUseMark::request(&activity);
        let command = InUseMark::command(&activity, false);
        assert_eq!((activity.is_used(), activity.commands()), (true, 1));
        assert_eq!(activity.idle_for(), Duration::ZERO);
        drop(request);
        assert!(activity.is_used());
        drop(command);
        assert_eq!((activity.is_used(), activity.commands()), (false, 0));
        assert!(activity.last_used_wall_ms() > 0);
    }

    #[test]
    fn a_passive_command_is_counted_but_not_a_use() {
        let activity = Arc::new(Activity::new(7));
        let passive = InUseMark::command(&activity, true);
        assert_eq!((activity.passive_commands(), activity.commands()), (1, 0));
        assert!(!activity.is_used());
        drop(passive);
        assert_eq!((activity.passive_commands(), activity.last_used_wall_ms()), (0, 7));
    }
}
