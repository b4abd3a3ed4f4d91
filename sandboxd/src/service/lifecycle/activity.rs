//! Who uses a sandbox, and since when nobody does.
//!
//! Idleness is measured by the monotonic clock; the wall clock is only for people, and may jump.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::service::clock::now_ms;

/// The use of one sandbox.
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
    /// Used just now; people are told `wall_ms`.
    pub(in crate::service) fn new(wall_ms: i64) -> Self {
        Self {
            users: AtomicUsize::new(0),
            commands: AtomicUsize::new(0),
            since: Instant::now(),
            last_used: AtomicU64::new(0),
            last_used_wall: AtomicI64::new(wall_ms),
        }
    }

    /// Counts as use.
    pub(in crate::service) fn touch(&self) {
        self.last_used.store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.last_used_wall.store(now_ms(), Ordering::Relaxed);
    }

    /// Whether a request or a command is under way.
    pub(in crate::service) fn is_used(&self) -> bool {
        self.users.load(Ordering::SeqCst) > 0
    }

    /// Commands under way.
    pub(in crate::service) fn commands(&self) -> usize {
        self.commands.load(Ordering::SeqCst)
    }

    /// How long nobody has used it; nothing while somebody does.
    pub(in crate::service) fn idle_for(&self) -> Duration {
        if self.is_used() {
            return Duration::ZERO;
        }
        let used_at = Duration::from_millis(self.last_used.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(used_at)
    }

    /// Milliseconds since the Unix epoch when it was last used, as the wall clock had it; now, while it is used.
    pub(in crate::service) fn last_used_wall_ms(&self) -> i64 {
        if self.is_used() {
            return now_ms();
        }
        self.last_used_wall.load(Ordering::Relaxed)
    }
}

/// The use of a sandbox by a request, for as long as it lives.
#[derive(Debug)]
pub(in crate::service) struct InUseMark {
    activity: Arc<Activity>,
    is_command: bool,
    /// Whether its end is the last use of the sandbox.
    counts: AtomicBool,
}

impl InUseMark {
    /// A request.
    pub(in crate::service) fn request(activity: &Arc<Activity>) -> Self {
        Self::new(activity, false)
    }

    /// A command.
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
}

impl InUseMark {
    /// What it stands for came to nothing and is no use: the sandbox is idle since it was used before.
    pub(in crate::service) fn discount(&self) {
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
    fn what_was_refused_is_no_use() {
        let activity = Arc::new(Activity::new(7));
        let refused = InUseMark::request(&activity);
        assert_eq!(activity.idle_for(), Duration::ZERO);
        refused.discount();
        drop(refused);
        assert_eq!(activity.last_used_wall_ms(), 7);
        drop(InUseMark::request(&activity));
        assert!(activity.last_used_wall_ms() > 7);
    }

    #[test]
    fn who_uses_it_keeps_it_from_being_idle() {
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
