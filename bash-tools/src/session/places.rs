//! Which sessions have a place, and which are giving theirs back. Nothing here waits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::slot::{Pinned, Slot};
use super::{Error, SessionKey};
use crate::provider::SandboxId;

/// Sandboxes of which it is remembered that nobody has used them, because their seeds failed.
const MAX_UNTOUCHED: usize = 1024;

/// Behind one lock, which is held for no longer than a call of these.
pub(super) struct Places {
    max_open: usize,
    began: Instant,
    open: HashMap<SessionKey, Arc<Slot>>,
    /// Sandboxes that were made here and never came to be used.
    untouched: HashSet<SandboxId>,
    /// Until their sandboxes are released; there is no sender any more when they are.
    leaving: HashMap<SessionKey, watch::Receiver<()>>,
}

/// A session that has lost its place, and whose sandbox is to be released before it is opened again.
pub(super) struct Leaving {
    pub(super) key: SessionKey,
    pub(super) sandbox: SandboxId,
    gone: watch::Sender<()>,
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

    pub(super) fn get(&self, key: &SessionKey) -> Option<&Slot> {
        self.open.get(key).map(|slot| &**slot)
    }

    /// The session's place, unless its opening has failed.
    pub(super) fn pin(&self, key: &SessionKey) -> Option<Pinned> {
        self.open.get(key).filter(|slot| !slot.has_failed()).map(Pinned::new)
    }

    /// A new place for a session that has none, or one that has failed. Where all are taken, another session loses its own:
    /// one that has failed, or, if `may_close`, the one that is idle longest.
    pub(super) fn take(
        &mut self,
        key: &SessionKey,
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

    fn idle_longest(&self, may_close: bool) -> Option<SessionKey> {
        let idle = self.open.iter().filter(|(_, slot)| slot.is_idle() && (may_close || slot.has_failed()));
        idle.min_by_key(|(_, slot)| (!slot.has_failed(), slot.last_used_ms())).map(|(key, _)| key.clone())
    }

    /// Closes what nobody has used for so long.
    pub(super) fn close_idle(&mut self, ttl: Duration) -> Vec<Leaving> {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let is_over =
            |slot: &Slot| slot.is_idle() && slot.now_ms().saturating_sub(slot.last_used_ms()) >= ttl_ms;
        let over: Vec<SessionKey> =
            self.open.iter().filter(|(_, slot)| is_over(slot)).map(|(key, _)| key.clone()).collect();
        over.into_iter().filter_map(|key| self.close(key)).collect()
    }

    fn close(&mut self, key: SessionKey) -> Option<Leaving> {
        let sandbox = self.open.remove(&key)?.sandbox()?;
        let (gone, is_gone) = watch::channel(());
        self.leaving.insert(key.clone(), is_gone);
        Some(Leaving { key, sandbox, gone })
    }

    /// What to wait for before the session is opened.
    pub(super) fn leaving(&self, key: &SessionKey) -> Option<watch::Receiver<()>> {
        self.leaving.get(key).cloned()
    }

    /// Its sandbox is released.
    pub(super) fn left(&mut self, leaving: &Leaving) {
        let ours = leaving.gone.subscribe();
        self.leaving.retain(|key, is_gone| *key != leaving.key || !is_gone.same_channel(&ours));
    }

    /// Notes a sandbox that was made; whether nobody can have used it yet.
    pub(super) fn is_untouched(&mut self, sandbox: &SandboxId, is_new: bool) -> bool {
        // Those whose seeds never come are forgotten some day, and then count as used.
        if is_new && self.untouched.len() < MAX_UNTOUCHED {
            self.untouched.insert(sandbox.clone());
        }
        is_new || self.untouched.contains(sandbox)
    }

    /// From now on somebody uses it.
    pub(super) fn touch(&mut self, sandbox: &SandboxId) {
        self.untouched.remove(sandbox);
    }

    /// Takes the session's place away, whoever uses it.
    pub(super) fn remove(&mut self, key: &SessionKey) -> Option<SandboxId> {
        self.open.remove(key).and_then(|slot| slot.sandbox())
    }

    /// The same where this sandbox is the session's.
    pub(super) fn forget(&mut self, key: &SessionKey, lost: &SandboxId) {
        if self.get(key).is_some_and(|slot| slot.sandbox().as_ref() == Some(lost)) {
            self.open.remove(key);
        }
    }

    /// Whether the session still has this very place.
    pub(super) fn has(&self, key: &SessionKey, slot: &Slot) -> bool {
        self.get(key).is_some_and(|there| std::ptr::eq(there, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::slot::Opening;

    fn key(chat: &str) -> SessionKey {
        SessionKey::chat(chat).unwrap()
    }

    /// Opens a session as if its sandbox had the same name.
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
        assert_eq!((leaving.key.as_str(), leaving.sandbox.as_str()), ("chat:1", "1"));
        let is_gone = places.leaving(&key("1")).expect("it is not released yet");
        assert!(is_gone.has_changed().is_ok());
        places.left(&leaving);
        drop(leaving);
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
        places.left(&first);
        assert!(places.leaving(&key("1")).is_some());
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
