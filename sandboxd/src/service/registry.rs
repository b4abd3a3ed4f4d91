//! The sandboxes there are, by id and by session.
//!
//! A sandbox is in here from the moment it is decided on until nothing of it is left, so that one session
//! never gets two and no user id is given out twice. The map is only ever locked for a look or a change.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::SandboxId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::Error;
use super::order::{Exclusive, OrderLock};
use crate::agent::{AgentHandle, Peer};
use crate::engine::SandboxLabels;
use crate::model::{SandboxSpec, SessionKey, Transport, UidSlot, limits};

/// One sandbox.
#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) labels: SandboxLabels,
    pub(super) order: OrderLock,
    /// Tells the agent's door which process may come in.
    pub(super) peer: watch::Sender<Peer>,
    /// One for each stream or wait, so that they cannot take all calls of the agent's connection.
    readers: Arc<Semaphore>,
}

impl Sandbox {
    /// A sandbox to be made by the caller, who holds it until then.
    pub(super) fn to_be_made(labels: SandboxLabels) -> (Arc<Self>, Exclusive) {
        let (order, guard) = OrderLock::creating();
        (Arc::new(Self::new(labels, order, watch::Sender::new(Peer::NotKnownYet))), guard)
    }

    fn new(labels: SandboxLabels, order: OrderLock, peer: watch::Sender<Peer>) -> Self {
        Self { labels, order, peer, readers: Arc::new(Semaphore::new(limits::MAX_READERS)) }
    }

    pub(super) fn id(&self) -> &SandboxId {
        &self.labels.id
    }

    /// A place for one more reader of the sandbox's commands.
    pub(super) fn reader(&self) -> Result<OwnedSemaphorePermit, Error> {
        let full = |_| Error::LimitReached {
            limit: "readers of commands".into(),
            value: limits::MAX_READERS as u64,
        };
        Arc::clone(&self.readers).try_acquire_owned().map_err(full)
    }
}

/// What a session gets.
pub(super) enum Claim {
    /// The sandbox it has.
    Existing(Arc<Sandbox>),
    /// A new one, to be made by the caller.
    New(Arc<Sandbox>, Exclusive),
}

#[derive(Debug, Default)]
struct Sandboxes {
    by_id: HashMap<SandboxId, Arc<Sandbox>>,
    by_session: HashMap<SessionKey, SandboxId>,
}

/// All sandboxes.
#[derive(Debug)]
pub(super) struct Registry {
    max: usize,
    /// Where the search for a free user id begins. Daemons on one machine begin at different places,
    /// because the kernel counts a user's processes across all of them.
    first_slot: usize,
    sandboxes: Mutex<Sandboxes>,
}

impl Registry {
    /// A registry of at most `max` sandboxes, whose user ids begin at a place that `seed` decides.
    pub(super) fn new(max: usize, seed: u64) -> Self {
        let first_slot = (seed % u64::from(UidSlot::COUNT)) as usize;
        Self { max, first_slot, sandboxes: Mutex::default() }
    }

    /// The session's sandbox, or a place for a new one.
    pub(super) fn claim(&self, spec: SandboxSpec, transport: Transport) -> Result<Claim, Error> {
        let id = SandboxId::random().map_err(|source| Error::Randomness { source })?;
        let mut sandboxes = self.lock();
        if let Some(sandbox) = sandboxes.of_session(&spec.session_key) {
            return Ok(Claim::Existing(sandbox));
        }
        if sandboxes.by_id.len() >= self.max {
            return Err(Error::Full { max: self.max });
        }
        let slot = sandboxes.free_slot(self.first_slot).ok_or(Error::Full { max: self.max })?;
        let (sandbox, guard) = Sandbox::to_be_made(SandboxLabels { id, slot, transport, disk: None, spec });
        sandboxes.insert(Arc::clone(&sandbox));
        Ok(Claim::New(sandbox, guard))
    }

    /// Takes in a sandbox of before, unless its session or user id has another; whether it did.
    pub(super) fn adopt(&self, labels: SandboxLabels, agent: AgentHandle, peer: watch::Sender<Peer>) -> bool {
        let mut sandboxes = self.lock();
        let taken = sandboxes.of_session(&labels.spec.session_key).is_some()
            || sandboxes.by_id.values().any(|sandbox| sandbox.labels.slot == labels.slot);
        if taken {
            return false;
        }
        let order = OrderLock::running(agent);
        sandboxes.insert(Arc::new(Sandbox::new(labels, order, peer)));
        true
    }

    /// The sandbox with this id.
    pub(super) fn get(&self, id: &SandboxId) -> Option<Arc<Sandbox>> {
        self.lock().by_id.get(id).cloned()
    }

    /// Every sandbox, in no order.
    pub(super) fn all(&self) -> Vec<Arc<Sandbox>> {
        self.lock().by_id.values().cloned().collect()
    }

    /// Forgets a sandbox of which nothing is left.
    pub(super) fn remove(&self, sandbox: &Sandbox) {
        let mut sandboxes = self.lock();
        sandboxes.by_id.remove(sandbox.id());
        let key = &sandbox.labels.spec.session_key;
        if sandboxes.by_session.get(key) == Some(sandbox.id()) {
            sandboxes.by_session.remove(key);
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
        let taken: HashSet<UidSlot> = self.by_id.values().map(|sandbox| sandbox.labels.slot).collect();
        let from_first = UidSlot::all().skip(first).chain(UidSlot::all().take(first));
        from_first.into_iter().find(|slot| !taken.contains(slot))
    }

    fn insert(&mut self, sandbox: Arc<Sandbox>) {
        self.by_session.insert(sandbox.labels.spec.session_key.clone(), sandbox.id().clone());
        self.by_id.insert(sandbox.id().clone(), sandbox);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(key: &str) -> SandboxSpec {
        SandboxSpec::new(SessionKey::parse(key, "sessionKey").unwrap())
    }

    fn new(registry: &Registry, key: &str) -> Arc<Sandbox> {
        match registry.claim(spec(key), Transport::Socket) {
            Ok(Claim::New(sandbox, _)) => sandbox,
            _ => panic!("expected a new sandbox for {key}"),
        }
    }

    #[test]
    fn a_session_has_one_sandbox() {
        let registry = Registry::new(8, 1995);
        let first = new(&registry, "chat:1");
        match registry.claim(spec("chat:1"), Transport::Socket) {
            Ok(Claim::Existing(second)) => assert_eq!(second.id(), first.id()),
            _ => panic!("expected the same sandbox"),
        }
    }

    #[test]
    fn user_ids_are_unique_among_the_living() {
        let registry = Registry::new(8, 1995);
        let (one, two) = (new(&registry, "chat:1"), new(&registry, "chat:2"));
        assert_ne!(one.labels.slot, two.labels.slot);
        registry.remove(&one);
        assert_eq!(new(&registry, "chat:3").labels.slot, one.labels.slot);
        let slots: HashSet<UidSlot> =
            (4..9).map(|n| new(&registry, &format!("chat:{n}")).labels.slot).collect();
        assert_eq!(slots.len(), 5, "the search goes on at the beginning");
    }

    #[test]
    fn a_full_registry_says_so() {
        let registry = Registry::new(1, 0);
        let first = new(&registry, "chat:1");
        assert!(matches!(registry.claim(spec("chat:2"), Transport::Socket), Err(Error::Full { max: 1 })));
        registry.remove(&first);
        new(&registry, "chat:2");
    }
}
