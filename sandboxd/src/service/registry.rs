//! The sandboxes there are, by id and by session.
//!
//! A sandbox is in here from the moment it is decided on until nothing of it is left, so that one session
//! never gets two and no user id is given out twice. The map is only ever locked for a look or a change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::{CommandId, SandboxId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::Error;
use super::activity::{Activity, now_ms};
use super::deadline::Deadlines;
use super::egress::Egress;
use super::oom::Ooms;
use super::order::{Exclusive, OrderLock, State};
use crate::agent::Peer;
use crate::engine::{Posture, SandboxLabels};
use crate::model::{SandboxRecord, SandboxSpec, SessionKey, Stage, Transport, UidSlot, limits};

/// One sandbox.
#[derive(Debug)]
pub(super) struct Sandbox {
    id: SandboxId,
    session_key: SessionKey,
    slot: UidSlot,
    pub(super) order: OrderLock,
    /// Tells the agent's door which process may come in.
    pub(super) peer: watch::Sender<Peer>,
    pub(super) activity: Arc<Activity>,
    /// When its memory was not enough.
    pub(super) ooms: Ooms,
    /// Its way out.
    pub(super) egress: Arc<Egress>,
    facts: Mutex<Facts>,
    /// One for each stream or wait, so that they cannot take all calls of the agent's connection.
    readers: Arc<Semaphore>,
    /// One for each writer to standard input, so that they cannot fill the connection's window.
    writers: Arc<Semaphore>,
    /// Commands whose end somebody waits for to write it down.
    pub(super) watched: Mutex<HashSet<CommandId>>,
    /// Whether its agent may know commands that the store lacks.
    unrecorded: AtomicBool,
    /// When its commands should have ended.
    pub(super) deadlines: Deadlines,
}

/// What is known of a sandbox at any moment, whatever is being done with it.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) record: SandboxRecord,
    /// As of when its container was last started or found.
    pub(super) posture: Option<Posture>,
    /// The store does not have the record as it is.
    pub(super) unsaved: bool,
    /// Somebody deletes it, or has.
    pub(super) deleted: bool,
    /// The engine has told of its container since the daemon was started.
    pub(super) restored: bool,
}

impl Sandbox {
    /// A sandbox to be made by the caller, who holds it until then.
    pub(super) fn to_be_made(record: SandboxRecord) -> (Arc<Self>, Exclusive) {
        let (order, guard) = OrderLock::creating();
        (Arc::new(Self::new(record, order, None)), guard)
    }

    /// A sandbox of before.
    pub(super) fn of_before(record: SandboxRecord, state: State, posture: Option<Posture>) -> Arc<Self> {
        Arc::new(Self::new(record, OrderLock::of(state), posture))
    }

    fn new(record: SandboxRecord, order: OrderLock, posture: Option<Posture>) -> Self {
        Self {
            id: record.id.clone(),
            session_key: record.spec.session_key.clone(),
            slot: record.slot,
            order,
            peer: watch::Sender::new(Peer::NotKnownYet),
            activity: Arc::new(Activity::new(record.last_active_ms)),
            ooms: Ooms::default(),
            egress: Egress::new(record.spec.network.clone()),
            facts: Mutex::new(Facts { record, posture, unsaved: false, deleted: false, restored: true }),
            readers: Arc::new(Semaphore::new(limits::MAX_READERS)),
            writers: Arc::new(Semaphore::new(limits::MAX_WRITERS)),
            watched: Mutex::default(),
            unrecorded: AtomicBool::new(false),
            deadlines: Deadlines::default(),
        }
    }

    pub(super) fn id(&self) -> &SandboxId {
        &self.id
    }

    /// Looks at what is known of it now. Nothing else may be waited for meanwhile.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Facts) -> T) -> T {
        look(&self.lock())
    }

    /// Its record as it is now.
    pub(super) fn record(&self) -> SandboxRecord {
        let mut record = self.lock().record.clone();
        record.last_active_ms = self.activity.last_used_wall_ms();
        record
    }

    /// Changes its record; the record as it is then.
    pub(super) fn update(&self, change: impl FnOnce(&mut SandboxRecord)) -> SandboxRecord {
        change(&mut self.lock().record);
        self.record()
    }

    pub(super) fn set_posture(&self, posture: Posture) {
        self.lock().posture = Some(posture);
    }

    pub(super) fn set_unrecorded(&self, unrecorded: bool) {
        self.unrecorded.store(unrecorded, Ordering::Release);
    }

    /// Whether its agent may know commands that the store lacks.
    pub(super) fn is_unrecorded(&self) -> bool {
        self.unrecorded.load(Ordering::Acquire)
    }

    pub(super) fn set_unsaved(&self, unsaved: bool) {
        self.lock().unsaved = unsaved;
    }

    pub(super) fn set_deleted(&self, deleted: bool) {
        self.lock().deleted = deleted;
    }

    pub(super) fn set_restored(&self, restored: bool) {
        self.lock().restored = restored;
    }

    pub(super) fn stage(&self) -> Stage {
        self.lock().record.stage
    }

    /// What is written on its container and volume.
    pub(super) fn labels(&self) -> SandboxLabels {
        let record = self.record();
        let SandboxRecord { id, slot, transport, disk, spec, .. } = record;
        SandboxLabels { id, slot, transport, disk, spec }
    }

    /// A place for one more reader of the sandbox's commands.
    pub(super) fn reader(&self) -> Result<OwnedSemaphorePermit, Error> {
        let full =
            |_| Error::LimitReached { limit: "streams and waits".into(), value: limits::MAX_READERS as u64 };
        Arc::clone(&self.readers).try_acquire_owned().map_err(full)
    }

    /// A place for one more writer to the standard input of a command.
    pub(super) fn writer(&self) -> Result<OwnedSemaphorePermit, Error> {
        let full = |_| Error::LimitReached {
            limit: "writers to standard input".into(),
            value: limits::MAX_WRITERS as u64,
        };
        Arc::clone(&self.writers).try_acquire_owned().map_err(full)
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        let (sandbox, guard) = Sandbox::to_be_made(new_record(id, slot, transport, spec));
        sandboxes.insert(Arc::clone(&sandbox));
        Ok(Claim::New(sandbox, guard))
    }

    /// Takes in a sandbox of before, unless its session or user id has another; whether it did.
    pub(super) fn adopt(&self, sandbox: Arc<Sandbox>) -> bool {
        let mut sandboxes = self.lock();
        let taken = sandboxes.by_session.contains_key(&sandbox.session_key)
            || sandboxes.slots.contains(&sandbox.slot);
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
        sandboxes.slots.remove(&sandbox.slot);
        if sandboxes.by_session.get(&sandbox.session_key) == Some(sandbox.id()) {
            sandboxes.by_session.remove(&sandbox.session_key);
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
        self.by_session.insert(sandbox.session_key.clone(), sandbox.id().clone());
        self.slots.insert(sandbox.slot);
        self.by_id.insert(sandbox.id().clone(), sandbox);
    }
}

/// The record of a sandbox that is about to be made.
pub(super) fn new_record(
    id: SandboxId,
    slot: UidSlot,
    transport: Transport,
    spec: SandboxSpec,
) -> SandboxRecord {
    let now = now_ms();
    SandboxRecord {
        id,
        slot,
        transport,
        spec,
        disk: None,
        stage: Stage::Creating,
        created_at_ms: now,
        last_active_ms: now,
        parked_at_age_ms: None,
        disk_bytes: None,
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
        assert_ne!(one.slot, two.slot);
        registry.remove(&one);
        assert_eq!(new(&registry, "chat:3").slot, one.slot);
        let slots: HashSet<UidSlot> = (4..9).map(|n| new(&registry, &format!("chat:{n}")).slot).collect();
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
    fn a_sandbox_of_before_takes_nobodys_place() {
        let registry = Registry::new(0);
        let living = new(&registry, "chat:1").record();
        let of_before = |id: &str, slot, key: &str| {
            let record = new_record(id.parse().unwrap(), slot, Transport::Socket, spec(key));
            Sandbox::of_before(record, State::Parked, None)
        };
        let free = UidSlot::all().nth(7).unwrap();
        assert!(!registry.adopt(of_before("sbx_0123456789abcdef", living.slot, "chat:2")));
        assert!(!registry.adopt(of_before("sbx_0123456789abcdef", free, "chat:1")));
        assert!(registry.adopt(of_before("sbx_0123456789abcdef", free, "chat:2")));
        assert_eq!(registry.all().len(), 2);
    }
}
