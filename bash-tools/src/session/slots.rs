//! Session slots: which sessions are open, and which are being released. Nothing here waits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::slot::{Pinned, Slot};
use super::{ChatKey, Error};
use crate::provider::SandboxId;

/// Maximum number of sandboxes that are recorded as never used, because their seeds failed.
const MAX_UNTOUCHED: usize = 1024;

/// State behind one lock, which is held only for the duration of a method call.
pub(super) struct Slots {
    max_open: usize,
    began: Instant,
    open: HashMap<ChatKey, Arc<Slot>>,
    /// Sandboxes that were created here and never used.
    untouched: HashSet<SandboxId>,
    /// Sessions whose sandboxes are being released or deleted. The sender is dropped when that is done.
    releasing: HashMap<ChatKey, watch::Receiver<()>>,
}

/// The session is in use and stays open.
#[derive(Debug, Clone, Copy)]
pub(super) struct InUse;

/// Blocks the opening of a session while it exists.
pub(super) struct Gate {
    key: ChatKey,
    gone: watch::Sender<()>,
}

/// A session that lost its slot. Its sandbox is released before the session can be opened again.
pub(super) struct Releasing {
    pub(super) sandbox: SandboxId,
    pub(super) gate: Gate,
}

/// A session that is deleted before it can be opened again.
pub(super) struct Deleting {
    /// The slot, if the session is open or being opened.
    pub(super) slot: Option<Arc<Slot>>,
    pub(super) gate: Gate,
}

impl Slots {
    pub(super) fn new(max_open: usize) -> Self {
        Self {
            max_open,
            began: Instant::now(),
            open: HashMap::new(),
            untouched: HashSet::new(),
            releasing: HashMap::new(),
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
    ) -> Result<(Pinned, Option<Releasing>), Error> {
        let mut releasing = None;
        if !self.open.contains_key(key) && self.open.len() >= self.max_open {
            let idle = self.longest_idle(may_close).ok_or(Error::AllInUse { limit: self.max_open })?;
            releasing = self.close(idle);
        }
        let slot = Arc::new(Slot::new(self.began));
        let pinned = Pinned::new(&slot);
        self.open.insert(key.clone(), slot);
        Ok((pinned, releasing))
    }

    fn longest_idle(&self, may_close: bool) -> Option<ChatKey> {
        let idle = self.open.iter().filter(|(_, slot)| slot.is_idle() && (may_close || slot.has_failed()));
        idle.min_by_key(|(_, slot)| (!slot.has_failed(), slot.last_used_ms())).map(|(key, _)| key.clone())
    }

    /// Closes sessions that were not used for this time.
    pub(super) fn close_idle(&mut self, ttl: Duration) -> Vec<Releasing> {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let is_over =
            |slot: &Slot| slot.is_idle() && slot.now_ms().saturating_sub(slot.last_used_ms()) >= ttl_ms;
        let over: Vec<ChatKey> =
            self.open.iter().filter(|(_, slot)| is_over(slot)).map(|(key, _)| key.clone()).collect();
        over.into_iter().filter_map(|key| self.close(key)).collect()
    }

    fn close(&mut self, key: ChatKey) -> Option<Releasing> {
        let sandbox = self.open.remove(&key)?.sandbox()?;
        Some(Releasing { sandbox, gate: self.block(key) })
    }

    /// Closes one session, unless it is in use.
    pub(super) fn close_unused(&mut self, key: &ChatKey) -> Result<Option<Releasing>, InUse> {
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
        Deleting { slot, gate: self.block(key.clone()) }
    }

    /// Blocks the session. Callers that wait for an earlier gate wait for this one afterwards.
    fn block(&mut self, key: ChatKey) -> Gate {
        let (gone, is_gone) = watch::channel(());
        self.releasing.insert(key.clone(), is_gone);
        Gate { key, gone }
    }

    /// Returns the release that must end before the session can be opened.
    pub(super) fn releasing(&self, key: &ChatKey) -> Option<watch::Receiver<()>> {
        self.releasing.get(key).cloned()
    }

    /// Allows the session to be opened again.
    pub(super) fn finish_release(&mut self, gate: Gate) {
        let ours = gate.gone.subscribe();
        self.releasing.retain(|key, is_gone| *key != gate.key || !is_gone.same_channel(&ours));
    }

    /// Records a created sandbox. Returns whether it has certainly not been used yet.
    pub(super) fn is_untouched(&mut self, sandbox: &SandboxId, is_new: bool) -> bool {
        // Sandboxes whose seeds never succeed are removed eventually and then count as used.
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
    fn open(slots: &mut Slots, chat: &str) -> Option<Releasing> {
        let (pinned, releasing) = slots.take(&key(chat), true).unwrap();
        pinned.slot().report(Opening::Ready(chat.to_owned().into()));
        releasing
    }

    #[test]
    fn a_release_ends_before_the_session_is_opened_again() {
        let mut slots = Slots::new(1);
        assert!(open(&mut slots, "1").is_none());
        let releasing = open(&mut slots, "2").expect("the first makes room");
        assert_eq!((releasing.gate.key.as_str(), releasing.sandbox.as_str()), ("chat:1", "1"));
        let is_gone = slots.releasing(&key("1")).expect("it is not released yet");
        assert!(is_gone.has_changed().is_ok());
        slots.finish_release(releasing.gate);
        assert!(is_gone.has_changed().is_err(), "waiting requests are notified");
        assert!(slots.releasing(&key("1")).is_none());
    }

    #[test]
    fn an_older_release_does_not_unblock_a_newer_one() {
        let mut slots = Slots::new(1);
        open(&mut slots, "1");
        let first = slots.close_idle(Duration::ZERO).pop().unwrap();
        open(&mut slots, "1");
        let _second = slots.close_idle(Duration::ZERO).pop().unwrap();
        slots.finish_release(first.gate);
        assert!(slots.releasing(&key("1")).is_some());
    }

    #[tokio::test]
    async fn opening_a_deleted_session_fails_and_a_later_one_waits() {
        let mut slots = Slots::new(1);
        let (first, _) = slots.take(&key("1"), true).unwrap();
        let deleting = slots.delete(&key("1"));
        first.slot().is_deleted().await;
        let (_second, _) = slots.take(&key("1"), true).unwrap();
        assert!(slots.releasing(&key("1")).is_some(), "the second waits until the first is deleted");
        slots.finish_release(deleting.gate);
        assert!(slots.releasing(&key("1")).is_none());
    }

    #[test]
    fn a_sandbox_in_use_is_not_parked() {
        let mut slots = Slots::new(1);
        open(&mut slots, "1");
        let used = slots.pin(&key("1")).unwrap();
        assert!(slots.close_unused(&key("1")).is_err());
        drop(used);
        assert!(slots.close_unused(&key("1")).unwrap().is_some());
        assert!(slots.close_unused(&key("2")).unwrap().is_none(), "it is not open");
    }

    #[test]
    fn failed_sessions_are_released_first_and_used_ones_never() {
        let mut slots = Slots::new(2);
        open(&mut slots, "1");
        let (failed, _) = slots.take(&key("2"), true).unwrap();
        failed.slot().report(Opening::Failed(Error::Stopped));
        let used = slots.pin(&key("1")).unwrap();
        assert!(slots.take(&key("3"), true).is_err(), "both are in use");
        drop(failed);
        assert!(slots.take(&key("3"), false).unwrap().1.is_none(), "what failed has nothing to release");
        assert!(slots.get(&key("2")).is_none());
        drop(used);
        assert!(slots.take(&key("4"), false).is_err(), "nothing may be closed");
    }
}
