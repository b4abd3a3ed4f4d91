//! The use of a sandbox, and since when it is idle.
//!
//! Idle time is measured by the monotonic clock. The wall clock may jump, so it only serves for display.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::service::clock::now_ms;

/// Counts the requests and commands that use one sandbox.
#[derive(Debug)]
pub(in crate::service) struct Activity {
    users: AtomicUsize,
    commands: AtomicUsize,
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

/// Marks a sandbox as in use by a request or a command, until it is dropped.
#[derive(Debug)]
pub(in crate::service) struct InUseMark {
    activity: Arc<Activity>,
    is_command: bool,
    /// Whether dropping it records a use of the sandbox.
    counts: AtomicBool,
}

impl InUseMark {
    /// Marks the use by a request.
    pub(in crate::service) fn request(activity: &Arc<Activity>) -> Self {
        Self::new(activity, false)
    }

    /// Marks the use by a command.
    pub(in crate::service) fn command(activity: &Arc<Activity>) -> Self {
        Self::new(activity, true)
    }

    fn new(activity: &Arc<Activity>, is_command: bool) -> Self {
        activity.users.fetch_add(1, Ordering::SeqCst);
        if is_command {
            activity.commands.fetch_add(1, Ordering::SeqCst);
        }
        Self { activity: Arc::clone(activity), is_command, counts: AtomicBool::new(true) }
    }

    /// Does not count this request as use. The idle time continues from the use before it.
    pub(in crate::service) fn do_not_count(&self) {
        self.counts.store(false, Ordering::Relaxed);
    }
}

impl Drop for InUseMark {
    fn drop(&mut self) {
        if self.counts.load(Ordering::Relaxed) {
            self.activity.touch();
        }
        if self.is_command {
            self.activity.commands.fetch_sub(1, Ordering::SeqCst);
        }
        self.activity.users.fetch_sub(1, Ordering::SeqCst);
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
        let command = InUseMark::command(&activity);
        assert_eq!((activity.is_used(), activity.commands()), (true, 1));
        assert_eq!(activity.idle_for(), Duration::ZERO);
        drop(request);
        assert!(activity.is_used());
        drop(command);
        assert_eq!((activity.is_used(), activity.commands()), (false, 0));
        assert!(activity.last_used_wall_ms() > 0);
    }
}
