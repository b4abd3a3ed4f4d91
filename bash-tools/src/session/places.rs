//! Session slots: which sessions are open, and which are being released. Nothing here waits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::slot::{Pinned, Slot};
use super::{ChatKey, Error};
use crate::provider::SandboxId;

/// Maximum number of sandboxes that are remembered as never used, because their seeds failed.
const MAX_UNTOUCHED: usize = 1024;

/// State behind one lock, which is held only for the duration of a method call.
pub(super) struct Places {
    max_open: usize,
    began: Instant,
    open: HashMap<ChatKey, Arc<Slot>>,
    /// Sandboxes that were created here and never used.
    untouched: HashSet<SandboxId>,
    /// Sessions whose sandboxes are being released or deleted. The sender is dropped when that is done.
    leaving: HashMap<ChatKey, watch::Receiver<()>>,
}

/// The session is in use and stays open.
#[derive(Debug, Clone, Copy)]
pub(super) struct InUse;

/// Keeps a session from being opened while it exists.
pub(super) struct Gate {
    key: ChatKey,
    gone: watch::Sender<()>,
}

/// A session that lost its slot. Its sandbox is released before the session can be opened again.
pub(super) struct Leaving {
    pub(super) sandbox: SandboxId,
    pub(super) gate: Gate,
}

/// A session that is deleted before it can be opened again.
pub(super) struct Deleting {
    /// The slot, if the session is open or being opened.
    pub(super) slot: Option<Arc<Slot>>,
    pub(super) gate: Gate,
}

impl Places {
    pub(super) fn new(max_open: usize) -> Self {
        Self {
            max_open,
            began: Instant::now(),
            open: HashMap::new(),
            untouched: HashSet::new(),
            leaving: HashMap::new(),
        }
    }

    pub(super) fn get(&self, key: &ChatKey) -> Option<&Slot> {
        self.open.get(key).map(|slot| &**slot)
    }

    /// Returns the session's slot, unless its opening has failed.
    pub(super) fn pin(&self, key: &ChatKey) -> Option<Pinned> {
        self.open.get(key).filter(|slot| !slot.has_failed()).map(Pinned::new)
    }

    /// Creates a slot for a session that has none or a failed one. If all slots are taken, another session loses its
    /// slot: a failed one or, if `may_close`, the one that is idle longest.
    pub(super) fn take(
        &mut self,
        key: &ChatKey,
        may_close: bool,
    ) -> Result<(Pinned, Option<Leaving>), Error> {
        let mut leaving = None;
        if !self.open.contains_key(key) && self.open.len() >= self.max_open {
            let idle = self.idle_longest(may_close).ok_or(Error::AllInUse { limit: self.max_open })?;
            leaving = self.close(idle);
        }
        let slot = Arc::new(Slot::new(self.began));
        let pinned = Pinned::new(&slot);
        self.open.insert(key.clone(), slot);
        Ok((pinned, leaving))
    }

    fn idle_longest(&self, may_close: bool) -> Option<ChatKey> {
        let idle = self.open.iter().filter(|(_, slot)| slot.is_idle() && (may_close || slot.has_failed()));
        idle.min_by_key(|(_, slot)| (!slot.has_failed(), slot.last_used_ms())).map(|(key, _)| key.clone())
    }

    /// Closes sessions that were not used for this time.
    pub(super) fn close_idle(&mut self, ttl: Duration) -> Vec<Leaving> {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let is_over =
            |slot: &Slot| slot.is_idle() && slot.now_ms().saturating_sub(slot.last_used_ms()) >= ttl_ms;
        let over: Vec<ChatKey> =
            self.open.iter().filter(|(_, slot)| is_over(slot)).map(|(key, _)| key.clone()).collect();
        over.into_iter().filter_map(|key| self.close(key)).collect()
    }

    fn close(&mut self, key: ChatKey) -> Option<Leaving> {
        let sandbox = self.open.remove(&key)?.sandbox()?;
        Some(Leaving { sandbox, gate: self.shut(key) })
    }

    /// Closes one session, unless it is in use.
    pub(super) fn close_unused(&mut self, key: &ChatKey) -> Result<Option<Leaving>, InUse> {
        match self.open.get(key) {
            Some(slot) if !slot.is_idle() => Err(InUse),
            _ => Ok(self.close(key.clone())),
        }
    }

    /// Takes the session's slot away, even if it is in use.
    pub(super) fn delete(&mut self, key: &ChatKey) -> Deleting {
        let slot = self.open.remove(key);
        if let Some(slot) = &slot {
            slot.delete();
        }
        Deleting { slot, gate: self.shut(key.clone()) }
    }

    /// Blocks the session. Callers that wait for an earlier gate wait for this one afterwards.
    fn shut(&mut self, key: ChatKey) -> Gate {
        let (gone, is_gone) = watch::channel(());
        self.leaving.insert(key.clone(), is_gone);
        Gate { key, gone }
    }

    /// What to wait for before the session can be opened.
    pub(super) fn leaving(&self, key: &ChatKey) -> Option<watch::Receiver<()>> {
        self.leaving.get(key).cloned()
    }

    /// Lets the session be opened again.
    pub(super) fn left(&mut self, gate: Gate) {
        let ours = gate.gone.subscribe();
        self.leaving.retain(|key, is_gone| *key != gate.key || !is_gone.same_channel(&ours));
    }

    /// Records a created sandbox. Returns whether it has certainly not been used yet.
    pub(super) fn is_untouched(&mut self, sandbox: &SandboxId, is_new: bool) -> bool {
        // Sandboxes whose seeds never succeed are forgotten eventually and then count as used.
        if is_new && self.untouched.len() < MAX_UNTOUCHED {
            self.untouched.insert(sandbox.clone());
        }
        is_new || self.untouched.contains(sandbox)
    }

    /// Marks the sandbox as used.
    pub(super) fn touch(&mut self, sandbox: &SandboxId) {
        self.untouched.remove(sandbox);
    }

    /// Takes the session's slot away if it has this sandbox.
    pub(super) fn forget(&mut self, key: &ChatKey, lost: &SandboxId) {
        if self.get(key).is_some_and(|slot| slot.sandbox().as_ref() == Some(lost)) {
            self.open.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::slot::Opening;

    fn key(chat: &str) -> ChatKey {
        ChatKey::chat(chat).unwrap()
    }

    /// Opens a session whose sandbox has the same name.
    fn open(places: &mut Places, chat: &str) -> Option<Leaving> {
        let (pinned, leaving) = places.take(&key(chat), true).unwrap();
        pinned.slot().tell(Opening::Ready(chat.to_owned().into()));
        leaving
    }

    #[test]
    fn what_is_released_is_waited_for_before_it_is_opened_again() {
        let mut places = Places::new(1);
        assert!(open(&mut places, "1").is_none());
        let leaving = open(&mut places, "2").expect("the first makes room");
        assert_eq!((leaving.gate.key.as_str(), leaving.sandbox.as_str()), ("chat:1", "1"));
        let is_gone = places.leaving(&key("1")).expect("it is not released yet");
        assert!(is_gone.has_changed().is_ok());
        places.left(leaving.gate);
        assert!(is_gone.has_changed().is_err(), "who waits is told");
        assert!(places.leaving(&key("1")).is_none());
    }

    #[test]
    fn what_was_begun_anew_is_not_told_as_released_by_the_one_before() {
        let mut places = Places::new(1);
        open(&mut places, "1");
        let first = places.close_idle(Duration::ZERO).pop().unwrap();
        open(&mut places, "1");
        let _second = places.close_idle(Duration::ZERO).pop().unwrap();
        places.left(first.gate);
        assert!(places.leaving(&key("1")).is_some());
    }

    #[tokio::test]
    async fn who_opens_what_is_deleted_is_told_and_who_comes_after_waits() {
        let mut places = Places::new(1);
        let (first, _) = places.take(&key("1"), true).unwrap();
        let deleting = places.delete(&key("1"));
        first.slot().is_deleted().await;
        let (_second, _) = places.take(&key("1"), true).unwrap();
        assert!(places.leaving(&key("1")).is_some(), "the second waits until the first is deleted");
        places.left(deleting.gate);
        assert!(places.leaving(&key("1")).is_none());
    }

    #[test]
    fn what_is_in_use_does_not_rest() {
        let mut places = Places::new(1);
        open(&mut places, "1");
        let used = places.pin(&key("1")).unwrap();
        assert!(places.close_unused(&key("1")).is_err());
        drop(used);
        assert!(places.close_unused(&key("1")).unwrap().is_some());
        assert!(places.close_unused(&key("2")).unwrap().is_none(), "it is not open");
    }

    #[test]
    fn what_has_failed_makes_room_first_and_what_is_in_use_never() {
        let mut places = Places::new(2);
        open(&mut places, "1");
        let (failed, _) = places.take(&key("2"), true).unwrap();
        failed.slot().tell(Opening::Failed(Error::Stopped));
        let used = places.pin(&key("1")).unwrap();
        assert!(places.take(&key("3"), true).is_err(), "both are in use");
        drop(failed);
        assert!(places.take(&key("3"), false).unwrap().1.is_none(), "what failed has nothing to release");
        assert!(places.get(&key("2")).is_none());
        drop(used);
        assert!(places.take(&key("4"), false).is_err(), "nothing may be closed");
    }
}
