//! Hosts that are allowed for one use.
//!
//! A program that is started again often opens several connections, one after another and at the same time. So one use
//! is not one connection: it begins with the first connection and is over when none has been open for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::model::network::Rule;
use crate::model::{Host, limits};

/// The hosts that are allowed to one sandbox for one use.
#[derive(Debug, Default)]
pub(super) struct Passes(Mutex<Granted>);

#[derive(Debug, Default)]
struct Granted {
    /// The newest last.
    passes: Vec<Pass>,
    next: u64,
}

/// Names a pass while it is valid, or a connection through it is open.
pub(super) type PassId = u64;

#[derive(Debug)]
struct Pass {
    id: PassId,
    rule: Rule,
    granted: Instant,
    /// Number of open connections.
    open: usize,
    /// When the last connection was closed.
    idle_since: Option<Instant>,
}

impl Pass {
    /// Whether another connection may begin.
    fn is_valid(&self, now: Instant) -> bool {
        let is_in_use = self.open > 0
            || self.idle_since.is_none_or(|since| now.duration_since(since) < limits::PASS_IDLE);
        is_in_use && now.duration_since(self.granted) < limits::PASS_LIFETIME
    }
}

impl Passes {
    fn lock(&self) -> MutexGuard<'_, Granted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows one use, beginning with the next connection. Replaces an earlier pass for the same hosts.
    pub(super) fn grant(&self, rule: Rule, now: Instant) {
        let mut granted = self.lock();
        if let Some(known) = granted.passes.iter_mut().find(|pass| pass.rule == rule) {
            (known.granted, known.idle_since) = (now, None);
            return;
        }
        granted.passes.retain(|pass| pass.open > 0 || pass.is_valid(now));
        if granted.passes.len() == limits::MAX_PASSES {
            granted.passes.remove(0);
        }
        let id = granted.next;
        granted.next += 1;
        granted.passes.push(Pass { id, rule, granted: now, open: 0, idle_since: None });
    }

    /// Counts a connection that a pass allows, until [`leave`](Self::leave).
    pub(super) fn enter(&self, host: &Host, port: u16, now: Instant) -> Option<(PassId, Rule)> {
        let mut granted = self.lock();
        let pass =
            granted.passes.iter_mut().find(|pass| pass.rule.includes(host, port) && pass.is_valid(now))?;
        pass.open += 1;
        Some((pass.id, pass.rule.clone()))
    }

    /// Ends a connection.
    pub(super) fn leave(&self, id: PassId, now: Instant) {
        if let Some(pass) = self.lock().passes.iter_mut().find(|pass| pass.id == id) {
            pass.open -= 1;
            pass.idle_since = Some(now);
        }
    }

    /// Whether open connections of a pass may stay.
    pub(super) fn has(&self, id: PassId) -> bool {
        self.lock().passes.iter().any(|pass| pass.id == id)
    }

    /// Removes all of them.
    pub(super) fn revoke(&self) {
        self.lock().passes.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn host(name: &str) -> Host {
        Host::parse(name).unwrap()
    }

    fn granted(name: &str, now: Instant) -> Passes {
        let passes = Passes::default();
        passes.grant(Rule::of(host(name), 443), now);
        passes
    }

    #[test]
    fn one_use_ends_when_no_connection_is_open() {
        let now = Instant::now();
        let passes = granted("a.example", now);
        let enter = |now| passes.enter(&host("a.example"), 443, now).map(|(id, _)| id);
        assert!(passes.enter(&host("b.example"), 443, now).is_none());
        assert!(passes.enter(&host("a.example"), 22, now).is_none());
        let later = now + limits::PASS_LIFETIME / 2;
        let (one, two) = (enter(later).unwrap(), enter(later).unwrap());
        passes.leave(one, later);
        let later = later + 2 * limits::PASS_IDLE;
        let three = enter(later).expect("a connection is still open");
        passes.leave(two, later);
        passes.leave(three, later);
        let four = enter(later + limits::PASS_IDLE / 2).expect("it is not idle for long");
        passes.leave(four, later + limits::PASS_IDLE / 2);
        assert_eq!(enter(later + limits::PASS_IDLE / 2 + limits::PASS_IDLE), None);
    }

    #[test]
    fn a_use_begins_within_its_lifetime() {
        let now = Instant::now();
        let passes = granted("a.example", now);
        let (last, after) =
            (now + limits::PASS_LIFETIME - Duration::from_secs(1), now + limits::PASS_LIFETIME);
        let id = passes.enter(&host("a.example"), 443, last).unwrap().0;
        assert!(passes.enter(&host("a.example"), 443, after).is_none());
        assert!(passes.has(id), "the open connection stays");
        passes.grant(Rule::of(host("a.example"), 443), after);
        assert!(passes.enter(&host("a.example"), 443, after).is_some(), "it is allowed again");
        passes.revoke();
        assert!(!passes.has(id));
        passes.leave(id, after);
    }

    #[test]
    fn the_oldest_pass_is_removed_at_the_maximum() {
        let now = Instant::now();
        let passes = granted("first.example", now);
        for at in 0..limits::MAX_PASSES {
            passes.grant(Rule::of(host(&format!("{at}.example")), 443), now);
        }
        assert!(passes.enter(&host("first.example"), 443, now).is_none());
        assert!(passes.enter(&host("0.example"), 443, now).is_some());
    }
}
