//! All sandboxes, by id and by session.
//!
//! A sandbox enters the registry before any part of it is created, and leaves the registry after every part was
//! removed. So a session never has two sandboxes, and no user id is assigned twice. The map is locked only for a lookup
//! or a change. The same holds for sandboxes that wait for a session, which have no session yet and are found by id only.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::SandboxId;

use super::Error;
use super::order::Exclusive;
use super::pool::Started;
use super::sandbox::{Sandbox, new_record};
use crate::model::{Owner, SandboxSpec, SessionKey, Transport, UidSlot};
use crate::service::quotas::{BaseCharge, Charge, Denied};

/// The result of a claim for a session.
pub(super) enum Claim {
    /// The sandbox that the session has already.
    Existing(Arc<Sandbox>),
    /// A new sandbox, which the caller must create.
    New(Arc<Sandbox>, Exclusive),
    /// A new sandbox, whose container runs already.
    Started(Arc<Sandbox>, Exclusive, Box<Started>),
    /// Every user id belongs to a sandbox. One sandbox of this owner must be deleted first, or one that waits.
    NoUserId,
    /// The rest of the user ids is kept for other projects. One sandbox of this owner must be deleted first.
    Full,
}

/// A session key, and whom the sandbox belongs to: other owners may have the same key.
type Session = (Owner, SessionKey);

#[derive(Debug, Default)]
struct Sandboxes {
    by_id: BTreeMap<SandboxId, Arc<Sandbox>>,
    by_session: HashMap<Session, SandboxId>,
    slots: HashSet<UidSlot>,
    /// Those that wait for a session, or are being created or removed.
    waiting: BTreeMap<SandboxId, Arc<Sandbox>>,
    /// What the projects are charged for the sandboxes.
    charges: HashMap<SandboxId, Charge>,
    /// What they are charged for the bases below them.
    base_charges: HashMap<SandboxId, BaseCharge>,
    /// Slots of other daemons' sandboxes on this engine, as of the last listing.
    other_slots: HashSet<UidSlot>,
}

/// All sandboxes.
#[derive(Debug)]
pub(super) struct Registry {
    /// Where the search for a free user id begins. Daemons on one machine should begin at different user ids, because
    /// the kernel counts a user's processes across all containers.
    first_slot: usize,
    sandboxes: Mutex<Sandboxes>,
}

impl Registry {
    /// Creates an empty registry. `seed` decides at which user id the search for a free one begins.
    pub(super) fn new(seed: u64) -> Self {
        let first_slot = (seed % u64::from(UidSlot::COUNT)) as usize;
        Self { first_slot, sandboxes: Mutex::default() }
    }

    /// Returns the session's sandbox, or enters a new one after `charge`, which gets the number of sandboxes that its owner has.
    /// `take` returns one for it that waits, if there is any.
    pub(super) fn claim(
        &self,
        spec: SandboxSpec,
        transport: Transport,
        charge: impl FnOnce(&SandboxSpec, u64) -> Result<Charge, Denied>,
        take: impl FnOnce(&SandboxSpec) -> Option<Started>,
    ) -> Result<Claim, Error> {
        let id = SandboxId::random().map_err(|source| Error::Randomness { source })?;
        let mut sandboxes = self.lock();
        if let Some(sandbox) = sandboxes.of_session(&session_of(&spec)) {
            return Ok(Claim::Existing(sandbox));
        }
        let charge = match charge(&spec, sandboxes.of_owner(&spec.owner)) {
            Ok(charge) => charge,
            Err(Denied::Full) => return Ok(Claim::Full),
            Err(Denied::Quota(error)) => return Err(error.into()),
        };
        if let Some(started) = take(&spec) {
            sandboxes.waiting.remove(started.sandbox.id());
            let (sandbox, guard) = started.sandbox.given_to(spec);
            sandboxes.insert(Arc::clone(&sandbox), charge);
            return Ok(Claim::Started(sandbox, guard, Box::new(started)));
        }
        let Some(slot) = sandboxes.free_slot(self.first_slot) else {
            return Ok(Claim::NoUserId);
        };
        let (sandbox, guard) = Sandbox::new(new_record(id, slot, transport, spec));
        sandboxes.insert(Arc::clone(&sandbox), charge);
        Ok(Claim::New(sandbox, guard))
    }

    /// Enters a new sandbox that is to wait for a session. `None` if every user id belongs to a sandbox.
    pub(super) fn enter_waiting(
        &self,
        spec: SandboxSpec,
        transport: Transport,
    ) -> Result<Option<Arc<Sandbox>>, Error> {
        let id = SandboxId::random().map_err(|source| Error::Randomness { source })?;
        let mut sandboxes = self.lock();
        let Some(slot) = sandboxes.free_slot(self.first_slot) else { return Ok(None) };
        let (sandbox, _) = Sandbox::new(new_record(id, slot, transport, spec));
        sandboxes.slots.insert(slot);
        sandboxes.waiting.insert(sandbox.id().clone(), Arc::clone(&sandbox));
        Ok(Some(sandbox))
    }

    /// Removes a sandbox that was to wait and whose parts were all removed.
    pub(super) fn remove_waiting(&self, sandbox: &Sandbox) {
        let mut sandboxes = self.lock();
        if sandboxes.waiting.remove(sandbox.id()).is_some() {
            sandboxes.slots.remove(&sandbox.slot());
        }
    }

    /// Sandboxes that wait for a session, or are being created or removed.
    pub(super) fn waiting(&self) -> Vec<Arc<Sandbox>> {
        self.lock().waiting.values().cloned().collect()
    }

    /// Whether there is a sandbox with this id, with a session or without.
    pub(super) fn knows(&self, id: &SandboxId) -> bool {
        let sandboxes = self.lock();
        sandboxes.by_id.contains_key(id) || sandboxes.waiting.contains_key(id)
    }

    /// Enters a sandbox from the previous run. Returns false if its session or user id belongs to another sandbox.
    pub(super) fn insert_restored(&self, sandbox: Arc<Sandbox>, charge: Charge) -> bool {
        let mut sandboxes = self.lock();
        let taken =
            sandboxes.by_session.contains_key(sandbox.session()) || sandboxes.slots.contains(&sandbox.slot());
        if !taken {
            sandboxes.insert(sandbox, charge);
        }
        !taken
    }

    /// Holds the charge for the base below a sandbox until the sandbox is removed.
    pub(super) fn hold_base_charge(&self, id: &SandboxId, charge: BaseCharge) {
        let mut sandboxes = self.lock();
        if sandboxes.by_id.contains_key(id) {
            sandboxes.base_charges.insert(id.clone(), charge);
        }
    }

    /// Sandboxes without such a charge.
    pub(super) fn without_base_charge(&self) -> Vec<Arc<Sandbox>> {
        let sandboxes = self.lock();
        let uncharged = sandboxes.by_id.iter().filter(|(id, _)| !sandboxes.base_charges.contains_key(*id));
        uncharged.map(|(_, sandbox)| Arc::clone(sandbox)).collect()
    }

    /// The sandbox of a session.
    pub(super) fn of_session(&self, owner: &Owner, key: &SessionKey) -> Option<Arc<Sandbox>> {
        self.lock().of_session(&(owner.clone(), key.clone()))
    }

    /// The sandbox with this id.
    pub(super) fn get(&self, id: &SandboxId) -> Option<Arc<Sandbox>> {
        self.lock().by_id.get(id).cloned()
    }

    /// Sets which user ids the sandboxes of other daemons have. New sandboxes get others, as long as there are any.
    pub(super) fn note_other_users(&self, slots: HashSet<UidSlot>) {
        self.lock().other_slots = slots;
    }

    /// All sandboxes, in order of their ids.
    pub(super) fn all(&self) -> Vec<Arc<Sandbox>> {
        self.lock().by_id.values().cloned().collect()
    }

    /// Removes a sandbox whose parts were all removed.
    pub(super) fn remove(&self, sandbox: &Sandbox) {
        let mut sandboxes = self.lock();
        if sandboxes.by_id.remove(sandbox.id()).is_none() {
            return;
        }
        sandboxes.slots.remove(&sandbox.slot());
        sandboxes.charges.remove(sandbox.id());
        sandboxes.base_charges.remove(sandbox.id());
        if sandboxes.by_session.get(sandbox.session()) == Some(sandbox.id()) {
            sandboxes.by_session.remove(sandbox.session());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sandboxes> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sandboxes {
    fn of_session(&self, session: &Session) -> Option<Arc<Sandbox>> {
        self.by_id.get(self.by_session.get(session)?).cloned()
    }

    fn of_owner(&self, owner: &Owner) -> u64 {
        self.by_id.values().filter(|sandbox| sandbox.owner() == owner).count() as u64
    }

    fn free_slot(&self, first: usize) -> Option<UidSlot> {
        let from_first = || UidSlot::all().skip(first).chain(UidSlot::all().take(first));
        let free = || from_first().filter(|slot| !self.slots.contains(slot));
        let unshared = free().find(|slot| !self.other_slots.contains(slot));
        unshared.or_else(|| free().next())
    }

    fn insert(&mut self, sandbox: Arc<Sandbox>, charge: Charge) {
        self.charges.insert(sandbox.id().clone(), charge);
        self.by_session.insert(sandbox.session().clone(), sandbox.id().clone());
        self.slots.insert(sandbox.slot());
        self.by_id.insert(sandbox.id().clone(), sandbox);
    }
}

fn session_of(spec: &SandboxSpec) -> Session {
    (spec.owner.clone(), spec.session_key.clone())
}

#[cfg(test)]
mod tests {
    use super::super::order::State;
    use super::*;

    fn charge(spec: &SandboxSpec, _: u64) -> Result<Charge, Denied> {
        Ok(Charge::of_nobody(&spec.owner.project))
    }

    fn spec(key: &str) -> SandboxSpec {
        SandboxSpec::new(key.parse().unwrap())
    }

    fn new(registry: &Registry, key: &str) -> Arc<Sandbox> {
        match registry.claim(spec(key), Transport::Socket, charge, |_| None) {
            Ok(Claim::New(sandbox, _)) => sandbox,
            _ => panic!("expected a new sandbox for {key}"),
        }
    }

    #[test]
    fn a_session_has_one_sandbox() {
        let registry = Registry::new(1995);
        let first = new(&registry, "chat:1");
        match registry.claim(spec("chat:1"), Transport::Socket, charge, |_| None) {
            Ok(Claim::Existing(second)) => assert_eq!(second.id(), first.id()),
            _ => panic!("expected the same sandbox"),
        }
    }

    #[test]
    fn owners_have_the_same_session_keys() {
        let registry = Registry::new(1995);
        let owner = |project: &str, subject: Option<&str>| Owner {
            project: project.parse().unwrap(),
            subject: subject.map(|subject| subject.parse().unwrap()),
        };
        let owners = [
            owner("default", None),
            owner("default", Some("ann")),
            owner("lab", None),
            owner("lab", Some("ann")),
        ];
        let mut ids = HashSet::new();
        for owner in &owners {
            let spec = SandboxSpec { owner: owner.clone(), ..spec("chat:1") };
            let Ok(Claim::New(sandbox, _)) = registry.claim(spec, Transport::Socket, charge, |_| None) else {
                panic!("expected a new sandbox for {owner:?}");
            };
            assert!(ids.insert(sandbox.id().clone()));
        }
        for owner in &owners {
            let found = registry.of_session(owner, &"chat:1".parse().unwrap()).unwrap();
            assert_eq!(found.with_spec(|spec| spec.owner.clone()), *owner);
            registry.remove(&found);
            assert!(registry.of_session(owner, &"chat:1".parse().unwrap()).is_none());
        }
    }

    #[test]
    fn user_ids_are_unique_and_reused_after_a_delete() {
        let registry = Registry::new(1995);
        let (one, two) = (new(&registry, "chat:1"), new(&registry, "chat:2"));
        assert_ne!(one.slot(), two.slot());
        registry.remove(&one);
        assert_eq!(new(&registry, "chat:3").slot(), one.slot());
        let slots: HashSet<UidSlot> = (4..9).map(|n| new(&registry, &format!("chat:{n}")).slot()).collect();
        assert_eq!(slots.len(), 5, "the search wraps around");
    }

    #[test]
    fn user_ids_of_other_daemons_are_used_last() {
        let registry = Registry::new(3);
        let others: HashSet<UidSlot> = UidSlot::all().skip(3).take(5).collect();
        registry.note_other_users(others.clone());
        let unshared = UidSlot::all().count() - others.len();
        for n in 0..unshared {
            assert!(!others.contains(&new(&registry, &format!("chat:{n}")).slot()));
        }
        assert!(others.contains(&new(&registry, "one more").slot()));
    }

    #[test]
    fn a_claim_without_a_free_user_id_is_rejected() {
        let registry = Registry::new(0);
        for n in 0..UidSlot::all().count() {
            new(&registry, &format!("chat:{n}"));
        }
        assert!(matches!(
            registry.claim(spec("one more"), Transport::Socket, charge, |_| None),
            Ok(Claim::NoUserId)
        ));
    }

    #[test]
    fn a_restored_sandbox_does_not_replace_another() {
        let registry = Registry::new(0);
        let existing = new(&registry, "chat:1").record();
        let restored = |id: &str, slot, key: &str| {
            let record = new_record(id.parse().unwrap(), slot, Transport::Socket, spec(key));
            Sandbox::restored(record, State::Parked, None)
        };
        let insert = |sandbox: Arc<Sandbox>| {
            let charge = Charge::of_nobody(&sandbox.owner().project);
            registry.insert_restored(sandbox, charge)
        };
        let free = UidSlot::all().nth(7).unwrap();
        assert!(!insert(restored("sbx_0123456789abcdef", existing.slot, "chat:2")));
        assert!(!insert(restored("sbx_0123456789abcdef", free, "chat:1")));
        assert!(insert(restored("sbx_0123456789abcdef", free, "chat:2")));
        assert_eq!(registry.all().len(), 2);
    }
}
