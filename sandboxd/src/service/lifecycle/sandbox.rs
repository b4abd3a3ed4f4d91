//! One sandbox in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::SandboxId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::Error;
use super::activity::Activity;
use super::checkpoints::CheckpointLedger;
use super::order::{Exclusive, OrderLock, State};
use super::value_ledger::ValueLedger;
use crate::agent::{AgentHandle, Peer};
use crate::engine::SandboxLabels;
use crate::model::{
    Owner, Posture, Refusal, SandboxRecord, SandboxSpec, SessionKey, Stage, Transport, UidSlot, limits,
};
use crate::service::clock::now_ms;
use crate::service::egress::Outbound;
use crate::service::history::Ledger;

/// One sandbox.
#[derive(Debug)]
pub(in crate::service) struct Sandbox {
    id: SandboxId,
    session: (Owner, SessionKey),
    slot: UidSlot,
    pub(super) order: OrderLock,
    /// The process that is accepted as the sandbox's agent.
    pub(super) peer: watch::Sender<Peer>,
    activity: Arc<Activity>,
    /// The history's state of this sandbox.
    ledger: Ledger,
    /// Its next automatic snapshot.
    checkpoints: CheckpointLedger,
    /// What is kept with it by key.
    values: tokio::sync::Mutex<ValueLedger>,
    /// Its outbound connections.
    outbound: Arc<Outbound>,
    facts: Mutex<Facts>,
    /// One permit for each stream or wait, so that they cannot take all calls of the agent's connection.
    readers: Arc<Semaphore>,
    /// One permit for each writer to standard input, so that they cannot fill the connection's window.
    writers: Arc<Semaphore>,
    /// One permit for each download of a visitor.
    downloads: Arc<Semaphore>,
}

/// The facts about a sandbox. They are readable at any time, also during a lifecycle operation.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) record: SandboxRecord,
    /// The hardening of its container, as of when the container was last started or inspected.
    pub(super) posture: Option<Posture>,
    /// The last write of this record failed, so the store has an older one.
    pub(super) unsaved: bool,
    /// It is being deleted, or was deleted.
    pub(super) deleted: bool,
    /// The engine has answered for its container since the daemon was started.
    pub(super) restored: bool,
}

impl Sandbox {
    /// A sandbox that the caller is about to create. The caller gets its lock, and holds it until it is created.
    pub(super) fn new(record: SandboxRecord) -> (Arc<Self>, Exclusive) {
        let (order, guard) = OrderLock::creating();
        (Arc::new(Self::with_order(record, order, None)), guard)
    }

    /// A sandbox with the container of this one, which has waited for a session. The caller gets its lock.
    pub(super) fn given_to(&self, spec: SandboxSpec) -> (Arc<Self>, Exclusive) {
        let (disk, posture) = self.with_facts(|facts| (facts.record.disk.clone(), facts.posture.clone()));
        let record =
            SandboxRecord { disk, ..new_record(self.id.clone(), self.slot, self.labels().transport, spec) };
        let (order, guard) = OrderLock::creating();
        let sandbox = Self { peer: self.peer.clone(), ..Self::with_order(record, order, posture) };
        (Arc::new(sandbox), guard)
    }

    /// A sandbox from the previous run.
    pub(super) fn restored(record: SandboxRecord, state: State, posture: Option<Posture>) -> Arc<Self> {
        Arc::new(Self::with_order(record, OrderLock::restored(state), posture))
    }

    fn with_order(record: SandboxRecord, order: OrderLock, posture: Option<Posture>) -> Self {
        let outbound = Outbound::new(record.spec.network.clone());
        outbound.set_secrets(record.spec.secrets());
        Self {
            id: record.id.clone(),
            session: (record.spec.owner.clone(), record.spec.session_key.clone()),
            slot: record.slot,
            order,
            peer: watch::Sender::new(Peer::Pending),
            activity: Arc::new(Activity::new(record.last_active_ms)),
            ledger: Ledger::new(record.id.clone()),
            checkpoints: CheckpointLedger::new(),
            values: tokio::sync::Mutex::default(),
            outbound,
            facts: Mutex::new(Facts { record, posture, unsaved: false, deleted: false, restored: true }),
            readers: Arc::new(Semaphore::new(limits::MAX_READERS)),
            writers: Arc::new(Semaphore::new(limits::MAX_WRITERS)),
            downloads: Arc::new(Semaphore::new(limits::MAX_DOWNLOADS)),
        }
    }

    pub(in crate::service) fn id(&self) -> &SandboxId {
        &self.id
    }

    /// Whom it belongs to.
    pub(in crate::service) fn owner(&self) -> &Owner {
        &self.session.0
    }

    /// Whom it belongs to, and its session key.
    pub(in crate::service) fn session(&self) -> &(Owner, SessionKey) {
        &self.session
    }

    pub(super) fn slot(&self) -> UidSlot {
        self.slot
    }

    /// The requests and commands that use it, and since when it is idle.
    pub(in crate::service) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// The history's state of this sandbox.
    pub(in crate::service) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Its next automatic snapshot.
    pub(in crate::service) fn checkpoints(&self) -> &CheckpointLedger {
        &self.checkpoints
    }

    /// What is kept with it by key. The lock is held while that changes.
    pub(in crate::service) fn values(&self) -> &tokio::sync::Mutex<ValueLedger> {
        &self.values
    }

    /// Number of connections that it was denied so far.
    pub(in crate::service) fn denied_attempts(&self) -> u64 {
        self.outbound.denied_attempts()
    }

    /// Its outbound connections.
    pub(in crate::service) fn outbound(&self) -> &Arc<Outbound> {
        &self.outbound
    }

    /// Its agent, if its container runs. Waits for lifecycle operations to end.
    pub(in crate::service) async fn running_agent(&self) -> Option<AgentHandle> {
        self.order.shared().await.agent().cloned()
    }

    /// As [`Self::running_agent`], without waiting. `None` also during a lifecycle operation.
    pub(in crate::service) fn running_agent_now(&self) -> Option<AgentHandle> {
        self.order.try_shared()?.agent().cloned()
    }

    /// Reads its spec, under a lock that `read` should hold only briefly.
    pub(in crate::service) fn with_spec<T>(&self, read: impl FnOnce(&SandboxSpec) -> T) -> T {
        read(&self.lock().record.spec)
    }

    /// The engine's id of its image, if the engine has reported it.
    pub(in crate::service) fn image_id(&self) -> Option<String> {
        self.with_facts(|facts| facts.posture.as_ref()?.image_id.clone())
    }

    /// Reads the facts, under a lock that `read` should hold only briefly.
    pub(super) fn with_facts<T>(&self, read: impl FnOnce(&Facts) -> T) -> T {
        read(&self.lock())
    }

    /// A copy of its record, with the current time of its last use.
    pub(super) fn record(&self) -> SandboxRecord {
        let mut record = self.lock().record.clone();
        record.last_active_ms = self.activity.last_used_wall_ms();
        record
    }

    /// Changes its record in memory. Returns the changed record.
    pub(super) fn update(&self, change: impl FnOnce(&mut SandboxRecord)) -> SandboxRecord {
        change(&mut self.lock().record);
        self.record()
    }

    pub(super) fn set_posture(&self, posture: Posture) {
        self.lock().posture = Some(posture);
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

    pub(in crate::service) fn stage(&self) -> Stage {
        self.lock().record.stage
    }

    /// The labels of its container and volume.
    pub(in crate::service) fn labels(&self) -> SandboxLabels {
        let SandboxRecord { id, slot, transport, disk, spec, .. } = self.record();
        SandboxLabels { id, slot, transport, disk, spec }
    }

    /// Returns a permit for one more stream or wait.
    pub(in crate::service) fn reader(&self) -> Result<OwnedSemaphorePermit, Error> {
        let full = |_| Refusal::LimitReached {
            limit: "streams and waits".into(),
            value: limits::MAX_READERS as u64,
        };
        Ok(Arc::clone(&self.readers).try_acquire_owned().map_err(full)?)
    }

    /// Returns a permit for one more writer to the standard input of a command.
    pub(in crate::service) fn writer(&self) -> Result<OwnedSemaphorePermit, Error> {
        let full = |_| Refusal::LimitReached {
            limit: "writers to standard input".into(),
            value: limits::MAX_WRITERS as u64,
        };
        Ok(Arc::clone(&self.writers).try_acquire_owned().map_err(full)?)
    }

    /// Returns a permit for one more download of a visitor.
    pub(in crate::service) fn download(&self) -> Result<OwnedSemaphorePermit, Error> {
        let full = |_| Refusal::LimitReached {
            limit: "downloads through links".into(),
            value: limits::MAX_DOWNLOADS as u64,
        };
        Ok(Arc::clone(&self.downloads).try_acquire_owned().map_err(full)?)
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the record of a sandbox that is about to be created.
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
        checkpoint_pending: false,
        is_tentative: false,
    }
}
