//! All sandboxes, by id and by session.
//!
//! A sandbox enters the registry before anything of it is made, and leaves it after everything of it is gone. So a session
//! never has two sandboxes and no user id is assigned twice. The map is locked only for a lookup or a change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::SandboxId;

use super::Error;
use super::order::Exclusive;
use super::sandbox::{Sandbox, new_record};
use crate::model::{SandboxSpec, SessionKey, Transport, UidSlot};

/// What a session gets.
pub(super) enum Claim {
    /// The sandbox it has.
    Existing(Arc<Sandbox>),
    /// A new one, to be made by the caller.
    New(Arc<Sandbox>, Exclusive),
    /// Every user id belongs to a sandbox; one of them must go first.
    NoUserId,
}

#[derive(Debug, Default)]
struct Sandboxes {
    by_id: BTreeMap<SandboxId, Arc<Sandbox>>,
    by_session: HashMap<SessionKey, SandboxId>,
    slots: HashSet<UidSlot>,
}

/// All sandboxes.
#[derive(Debug)]
pub(super) struct Registry {
    /// Where the search for a free user id begins. Daemons on one machine begin at different places,
    /// because the kernel counts a user's processes across all of them.
    first_slot: usize,
    sandboxes: Mutex<Sandboxes>,
}

impl Registry {
    /// A registry whose user ids begin at a place that `seed` decides.
    pub(super) fn new(seed: u64) -> Self {
        let first_slot = (seed % u64::from(UidSlot::COUNT)) as usize;
        Self { first_slot, sandboxes: Mutex::default() }
    }

    /// The session's sandbox, or a place for a new one.
    pub(super) fn claim(&self, spec: SandboxSpec, transport: Transport) -> Result<Claim, Error> {
        let id = SandboxId::random().map_err(|source| Error::Randomness { source })?;
        let mut sandboxes = self.lock();
        if let Some(sandbox) = sandboxes.of_session(&spec.session_key) {
            return Ok(Claim::Existing(sandbox));
        }
        let Some(slot) = sandboxes.free_slot(self.first_slot) else {
            return Ok(Claim::NoUserId);
        };
        let (sandbox, guard) = Sandbox::new(new_record(id, slot, transport, spec));
        sandboxes.insert(Arc::clone(&sandbox));
        Ok(Claim::New(sandbox, guard))
    }

    /// Takes in a sandbox of before, unless its session or user id has another; whether it did.
    pub(super) fn adopt(&self, sandbox: Arc<Sandbox>) -> bool {
        let mut sandboxes = self.lock();
        let taken = sandboxes.by_session.contains_key(sandbox.session_key())
            || sandboxes.slots.contains(&sandbox.slot());
        if !taken {
            sandboxes.insert(sandbox);
        }
        !taken
    }

    /// The sandbox with this id.
    pub(super) fn get(&self, id: &SandboxId) -> Option<Arc<Sandbox>> {
        self.lock().by_id.get(id).cloned()
    }

    /// All of them, in order of their ids.
    pub(super) fn all(&self) -> Vec<Arc<Sandbox>> {
        self.lock().by_id.values().cloned().collect()
    }

    /// Forgets a sandbox of which nothing is left.
    pub(super) fn remove(&self, sandbox: &Sandbox) {
        let mut sandboxes = self.lock();
        if sandboxes.by_id.remove(sandbox.id()).is_none() {
            return;
        }
        sandboxes.slots.remove(&sandbox.slot());
        if sandboxes.by_session.get(sandbox.session_key()) == Some(sandbox.id()) {
            sandboxes.by_session.remove(sandbox.session_key());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sandboxes> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sandboxes {
    fn of_session(&self, key: &SessionKey) -> Option<Arc<Sandbox>> {
        self.by_id.get(self.by_session.get(key)?).cloned()
    }

    fn free_slot(&self, first: usize) -> Option<UidSlot> {
        let mut from_first = UidSlot::all().skip(first).chain(UidSlot::all().take(first));
        from_first.find(|slot| !self.slots.contains(slot))
    }

    fn insert(&mut self, sandbox: Arc<Sandbox>) {
        self.by_session.insert(sandbox.session_key().clone(), sandbox.id().clone());
        self.slots.insert(sandbox.slot());
        self.by_id.insert(sandbox.id().clone(), sandbox);
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::State;
    use super::*;

    fn spec(key: &str) -> SandboxSpec {
        SandboxSpec::new(key.parse().unwrap())
    }

    fn new(registry: &Registry, key: &str) -> Arc<Sandbox> {
        match registry.claim(spec(key), Transport::Socket) {
            Ok(Claim::New(sandbox, _)) => sandbox,
            _ => panic!("expected a new sandbox for {key}"),
        }
    }

    #[test]
    fn a_session_has_one_sandbox() {
        let registry = Registry::new(1995);
        let first = new(&registry, "chat:1");
        match registry.claim(spec("chat:1"), Transport::Socket) {
            Ok(Claim::Existing(second)) => assert_eq!(second.id(), first.id()),
            _ => panic!("expected the same sandbox"),
        }
    }

    #[test]
    fn user_ids_are_unique_among_the_living() {
        let registry = Registry::new(1995);
        let (one, two) = (new(&registry, "chat:1"), new(&registry, "chat:2"));
        assert_ne!(one.slot(), two.slot());
        registry.remove(&one);
        assert_eq!(new(&registry, "chat:3").slot(), one.slot());
        let slots: HashSet<UidSlot> = (4..9).map(|n| new(&registry, &format!("chat:{n}")).slot()).collect();
        assert_eq!(slots.len(), 5, "the search goes on at the beginning");
    }

    #[test]
    fn without_a_free_user_id_there_is_no_new_sandbox() {
        let registry = Registry::new(0);
        for n in 0..UidSlot::all().count() {
            new(&registry, &format!("chat:{n}"));
        }
        assert!(matches!(registry.claim(spec("one more"), Transport::Socket), Ok(Claim::NoUserId)));
    }

    #[test]
    fn a_sandbox_restored_takes_nobodys_place() {
        let registry = Registry::new(0);
        let living = new(&registry, "chat:1").record();
        let restored = |id: &str, slot, key: &str| {
            let record = new_record(id.parse().unwrap(), slot, Transport::Socket, spec(key));
            Sandbox::restored(record, State::Parked, None)
        };
        let free = UidSlot::all().nth(7).unwrap();
        assert!(!registry.adopt(restored("sbx_0123456789abcdef", living.slot, "chat:2")));
        assert!(!registry.adopt(restored("sbx_0123456789abcdef", free, "chat:1")));
        assert!(registry.adopt(restored("sbx_0123456789abcdef", free, "chat:2")));
        assert_eq!(registry.all().len(), 2);
    }
}
