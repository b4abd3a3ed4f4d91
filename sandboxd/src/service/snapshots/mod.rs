//! Snapshots of sandboxes: made, compared, restored, exported and deleted.
//!
//! A snapshot is a tree of chunks ([`snapshot_format`]). The agent makes it, [`receive`] verifies and stores it, and
//! [`steps`] turns the files of a sandbox into those of a snapshot. A snapshot outlives its sandbox.
//!
//! The last snapshot of a sandbox is the *parent* of its next one: what has not changed since then is not sent. The chunks
//! of the parent are part of the new snapshot, so a parent is not deleted before the new snapshot is recorded
//! ([`pins`]).

mod archive;
mod changes;
mod check;
mod checkpoints;
mod chunks;
mod collect;
mod copy;
mod fork;
mod index;
mod manifest;
mod one_at_a_time;
mod park;
mod parked_state;
mod pins;
mod present;
mod receive;
mod restore;
mod resume;
mod seed;
mod steps;
mod store;
mod time_limit;
mod values;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prost::Message;
use sandbox_api::{CommandId, SandboxId, SnapshotId};
use snapshot_format::Content;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use tracing::warn;

pub use self::archive::{ImportFailed, ImportOptions, SnapshotFile};
pub use self::changes::{ChangeKind, ChangeOptions, ChangePage, Diff, FileChange, Omitted};
pub use self::check::{CheckMode, CheckReport, PackFault, PackProblem};
use self::one_at_a_time::OneAtATime;
use self::parked_state::ParkedState;
use self::pins::{Pin, Pins};
use self::receive::Received;
pub use self::restore::RestoreDone;
use self::store::SnapshotStore;
use self::time_limit::within_limit;
use self::values::SnapshotValues;
use super::audit::Audit;
use super::clock::now_ms;
use super::lifecycle::{DueCheckpoint, Lifecycle, Sandbox};
use super::quotas::{Quotas, Turn, Turns};
use super::storage::Storage;
use super::tasks::Tasks;
use super::{Authorized, Context, Error, SnapshotError};
use crate::agent::AgentHandle;
use crate::metrics::Metrics;
use crate::model::audit::Act;
use crate::model::snapshot::MadeSnapshot;
use crate::model::{
    Owner, ProjectName, Refusal, Resource, SessionKey, SnapshotCursor, SnapshotRecord, SnapshotState, limits,
};
use crate::packs;
use crate::seam;
use crate::store::Store;

/// Options of a new snapshot.
#[derive(Debug, Clone, Default)]
pub struct SnapshotOptions {
    /// Display name.
    pub name: Option<String>,
    /// Time after which it is deleted. `None` is never.
    pub ttl: Option<Duration>,
    /// Whether all processes are stopped while their files are read.
    pub pause: bool,
}

/// A request for a snapshot.
#[derive(Debug)]
struct SnapshotRequest {
    id: SnapshotId,
    owner: Owner,
    session_key: SessionKey,
    name: Option<String>,
    ttl: Option<Duration>,
    pause: bool,
    automatic: bool,
    command: Option<CommandId>,
    /// If the last snapshot has the same files and values and is kept for at least this time, it is used, and none is recorded.
    reuse_if_kept_for: Option<Duration>,
}

impl SnapshotRequest {
    /// A request by a client.
    fn new(sandbox: &Sandbox, options: SnapshotOptions) -> Result<Self, Error> {
        let id = SnapshotId::random().map_err(|source| Error::Randomness { source })?;
        let SnapshotOptions { name, ttl, pause } = options;
        let (owner, session_key) = sandbox.session().clone();
        let (automatic, command, reuse_if_kept_for) = (false, None, None);
        Ok(Self { id, owner, session_key, name, ttl, pause, automatic, command, reuse_if_kept_for })
    }

    /// An automatic request.
    fn automatic(sandbox: &Sandbox, due: &DueCheckpoint) -> Self {
        let (owner, session_key) = sandbox.session().clone();
        Self {
            id: due.id.clone(),
            owner,
            session_key,
            name: None,
            ttl: Some(limits::CHECKPOINT_TTL),
            pause: false,
            automatic: true,
            command: due.command.clone(),
            reuse_if_kept_for: None,
        }
    }

    /// Whether `last`, which has the same files and values, is returned instead of a new snapshot.
    fn reuses(&self, last: &SnapshotRecord) -> bool {
        let Some(kept_for) = self.reuse_if_kept_for else { return false };
        last.expires_at_ms.is_none_or(|at| at >= now_ms().saturating_add(millis(kept_for)))
    }
}

/// A new snapshot.
#[derive(Debug, Clone)]
pub struct NewSnapshot {
    /// The snapshot.
    pub record: SnapshotRecord,
    /// The first of the files that changed each time they were read. Paths from the snapshot's root.
    pub torn: Vec<String>,
    /// Number of those files.
    pub torn_files: u64,
    /// Whether all processes were stopped the whole time.
    pub paused: bool,
}

/// Makes and restores snapshots.
#[derive(Debug)]
pub struct Snapshots {
    audit: Arc<Audit>,
    lifecycle: Arc<Lifecycle>,
    storage: Arc<Storage>,
    quotas: Arc<Quotas>,
    store: Arc<Store>,
    tasks: Tasks,
    metrics: Arc<Metrics>,
    state_dir: PathBuf,
    /// Total size of the stored snapshots after which no more are made.
    max_stored_bytes: Option<u64>,
    /// Whether a collection may find chunks that no snapshot has.
    was_deleted: AtomicBool,
    /// Notified when a snapshot failed because the disk was full. The chunks that it stored belong to no snapshot.
    disk_was_full: Notify,
    /// How long a parked sandbox is kept.
    workspace_retention: Duration,
    packs: SnapshotStore,
    values: SnapshotValues,
    pins: Pins,
    /// One permit for each snapshot or restore that may run at the same time.
    permits: Turns,
    /// As [`Self::permits`], for automatic snapshots, so that requests do not wait for them.
    checkpoint_permits: Semaphore,
    /// As [`Self::checkpoint_permits`], for sandboxes that are parked.
    park_permits: Semaphore,
    /// The sandboxes of which a snapshot is made or restored now.
    busy: OneAtATime,
    parked: ParkedState,
    /// One permit for each export that may run at the same time.
    exports: Arc<Semaphore>,
    /// One permit for each import that may run at the same time.
    imports: Arc<Semaphore>,
    /// One permit for each check that may run at the same time.
    checks: Arc<Semaphore>,
    /// Whether a remote store was compared with the database.
    is_compared: AtomicBool,
    /// Whether the index was rebuilt because a snapshot could not be read.
    was_index_rebuilt: AtomicBool,
    /// The snapshots that interrupted restores need.
    interrupted: Mutex<HashMap<SandboxId, Vec<Pin>>>,
}

impl Snapshots {
    pub(in crate::service) async fn new(
        context: &Context,
        audit: &Arc<Audit>,
        lifecycle: &Arc<Lifecycle>,
        storage: &Arc<Storage>,
        quotas: &Arc<Quotas>,
    ) -> Result<Self, Error> {
        for snapshot in context.store.all_snapshots().await? {
            quotas.existing_snapshot(&snapshot);
        }
        Ok(Self {
            audit: Arc::clone(audit),
            lifecycle: Arc::clone(lifecycle),
            storage: Arc::clone(storage),
            quotas: Arc::clone(quotas),
            store: Arc::clone(&context.store),
            tasks: context.tasks.clone(),
            metrics: Arc::clone(&context.metrics),
            state_dir: context.setup.state_dir.clone(),
            max_stored_bytes: context.setup.limits.snapshots_bytes,
            was_deleted: AtomicBool::new(true),
            disk_was_full: Notify::new(),
            workspace_retention: context.setup.limits.workspace_retention,
            packs: SnapshotStore::new(context).await?,
            values: SnapshotValues::new(&context.store, quotas),
            pins: Pins::default(),
            permits: Turns::new(limits::MAX_SNAPSHOTS),
            checkpoint_permits: Semaphore::new(limits::MAX_CHECKPOINTS),
            park_permits: Semaphore::new(limits::MAX_CHECKPOINTS),
            busy: OneAtATime::default(),
            parked: ParkedState::default(),
            checks: Arc::new(Semaphore::new(limits::MAX_CHECKS)),
            exports: Arc::new(Semaphore::new(limits::MAX_EXPORTS)),
            imports: Arc::new(Semaphore::new(limits::MAX_IMPORTS)),
            is_compared: AtomicBool::new(false),
            was_index_rebuilt: AtomicBool::new(false),
            interrupted: Mutex::default(),
        })
    }

    /// Makes a snapshot of a sandbox while it runs. Wakes the sandbox if it is parked.
    pub async fn make(
        &self,
        id: &Authorized<SandboxId>,
        options: SnapshotOptions,
    ) -> Result<NewSnapshot, Error> {
        let _busy = self.busy.begin(id).await?;
        let project = self.lifecycle.find(id)?.owner().project.clone();
        let _turn = self.turn(&project).await?;
        self.check_room().await?;
        self.quotas.check_storable(&project)?;
        let in_use = self.lifecycle.in_use(id).await?;
        let request = SnapshotRequest::new(in_use.sandbox(), options)?;
        let (sandbox, agent, _mark) = in_use.unlock();
        let made = self.make_with(sandbox.id(), &agent, request);
        let (record, made) = self.storage.while_space_lasts(made).await?;
        Ok(NewSnapshot { record, torn: made.torn, torn_files: made.torn_files, paused: made.paused })
    }

    /// Makes a snapshot that the daemon keeps for itself, of a sandbox that only the daemon uses.
    pub(in crate::service) async fn make_for_daemon(
        &self,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        owner: Owner,
        name: String,
    ) -> Result<SnapshotRecord, Error> {
        let _busy = self.busy.begin(sandbox.id()).await?;
        let _turn = self.turn(&sandbox.owner().project).await?;
        self.check_room().await?;
        let options = SnapshotOptions { name: Some(name), ..SnapshotOptions::default() };
        let request = SnapshotRequest { owner, ..SnapshotRequest::new(sandbox, options)? };
        let made = self.make_with(sandbox.id(), agent, request);
        Ok(self.storage.while_space_lasts(made).await?.0)
    }

    /// Fails if there is no room for another snapshot. A snapshot that starts with room may exceed it.
    async fn check_room(&self) -> Result<(), Error> {
        self.storage.check_space(0).await?;
        match self.max_stored_bytes {
            Some(max_bytes) if self.stored_bytes().await? >= max_bytes => {
                Err(Error::Snapshot(SnapshotError::Full { max_bytes }))
            }
            _ => Ok(()),
        }
    }

    async fn stored_bytes(&self) -> Result<u64, Error> {
        Ok(self.packs.packs().await?.stored_bytes().await?)
    }

    async fn make_with(
        &self,
        id: &SandboxId,
        agent: &AgentHandle,
        request: SnapshotRequest,
    ) -> Result<(SnapshotRecord, MadeSnapshot), Error> {
        let made = within_limit(self.make_now(id, agent, request)).await;
        if let Err(Error::Snapshot(SnapshotError::NoSpace { .. })) = &made {
            self.disk_was_full.notify_one();
        }
        made
    }

    async fn make_now(
        &self,
        id: &SandboxId,
        agent: &AgentHandle,
        request: SnapshotRequest,
    ) -> Result<(SnapshotRecord, MadeSnapshot), Error> {
        let began = Instant::now();
        let mut unused = UnusedChunks { was_deleted: &self.was_deleted, are_used: false };
        let parent = self.pin_latest(id).await?;
        let parent_record = parent.as_ref().map(|(record, _)| record);
        let received = self.receive_present(agent, &request.id, parent_record, request.pause, Some(id)).await;
        let (received, parent_id) = match received {
            Err(Error::Snapshot(SnapshotError::Damaged { source })) => {
                return Err(self.present_damaged(id, source).await);
            }
            received => received?,
        };
        let Received { made, values, finished, sent_bytes } = received;
        let (root, values) = (made.root.encode_to_vec(), values.map(|values| values.encode_to_vec()));
        if let Some((last, _)) = &parent
            && last.root == root
            && last.values == values
            && parent_id.as_ref() == Some(&last.id)
            && request.reuses(last)
        {
            unused.are_used = true;
            return Ok((last.clone(), made));
        }
        seam::at("snapshot.chunks");
        let created_at_ms = now_ms();
        let ttl_ms = request.ttl.map(millis);
        let record = SnapshotRecord {
            id: request.id,
            sandbox: id.clone(),
            owner: request.owner,
            session_key: Some(request.session_key),
            name: request.name,
            created_at_ms,
            expires_at_ms: ttl_ms.map(|ttl| created_at_ms.saturating_add(ttl)),
            root,
            values,
            parent: parent_id,
            size_bytes: made.bytes,
            new_bytes: finished.new_bytes,
            files: made.files,
            state: SnapshotState::Complete,
            automatic: request.automatic,
            command: request.command,
        };
        self.add_record(&record, (finished.lease, parent)).await?;
        unused.are_used = true;
        let shared_bytes = made.bytes.saturating_sub(sent_bytes);
        self.metrics.snapshot_made(began.elapsed(), record.new_bytes, shared_bytes);
        Ok((record, made))
    }

    /// Records a snapshot whose chunks are stored, also if the caller leaves meanwhile. `protection` keeps the chunks until
    /// then.
    async fn add_record(
        &self,
        record: &SnapshotRecord,
        protection: impl Send + 'static,
    ) -> Result<(), Error> {
        let (packs, store) = (self.packs.packs().await?.clone(), Arc::clone(&self.store));
        // Until the snapshot is recorded, a collection must not restore a record from its manifest.
        let recording = self.pins.pin(&record.id);
        let record = record.clone();
        let charge = self.quotas.snapshot(&record)?;
        let work = async move {
            manifest::put(&packs, &record).await?;
            seam::at("snapshot.manifest");
            if let Err(error) = store.add_snapshot(&record).await {
                // Its id is never returned. If this fails too, the next start finds it.
                let _ = manifest::delete(&packs, &record.id).await;
                return Err(error.into());
            }
            charge.keep();
            // From here on the record protects the chunks.
            drop((recording, protection));
            Ok(())
        };
        self.tasks.run_detached(work).await
    }

    /// The last snapshot of a sandbox, which is not deleted before the pin is dropped.
    async fn pin_latest(&self, id: &SandboxId) -> Result<Option<(SnapshotRecord, Pin)>, Error> {
        let Some(latest) = self.store.latest_snapshot(id).await? else { return Ok(None) };
        // Its lost chunks would be missing in the next snapshot too.
        if latest.state == SnapshotState::Damaged {
            return Ok(None);
        }
        let Some(pin) = self.pins.pin(&latest.id) else { return Ok(None) };
        // It may have been deleted before it was pinned.
        Ok(self.store.snapshot(&latest.id).await?.map(|record| (record, pin)))
    }

    /// One snapshot, which is not deleted before the pin is dropped.
    async fn pinned(&self, id: &SnapshotId) -> Result<(SnapshotRecord, Pin), Error> {
        let missing = || Refusal::NotFound(Resource::Snapshot);
        let pin = self.pins.pin(id).ok_or_else(missing)?;
        Ok((self.record(id).await?, pin))
    }

    /// Whether the store is opened by [`Self::open_store`], and not at the start.
    pub(in crate::service) fn has_remote_store(&self) -> bool {
        self.packs.is_remote()
    }

    /// Opens a remote store if it is not open, and compares it with the database once. It logs why that is not possible.
    pub(in crate::service) async fn open_store(&self) -> Result<(), Error> {
        self.packs.open_fully().await?;
        if self.packs.take_new() {
            self.lifecycle.note_new_store().await;
        }
        if !self.packs.is_remote() || self.is_compared.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.find_unrecorded().await {
            Ok(()) => self.is_compared.store(true, Ordering::Release),
            Err(error) => warn!(
                error = &error as &dyn std::error::Error,
                "could not compare the remote snapshots with the database; it is tried again"
            ),
        }
        Ok(())
    }

    /// Adds the records of snapshots that have a manifest and are not in the database, because it was lost or is older.
    pub(in crate::service) async fn find_unrecorded(&self) -> Result<(), Error> {
        let packs = self.packs.packs().await?;
        for id in manifest::list(packs).await? {
            if self.store.snapshot(&id).await?.is_some() {
                continue;
            }
            // A snapshot that is being recorded or deleted is in use.
            let Some(_pin) = self.pins.pin_unused(&id) else { continue };
            match manifest::get(packs, &id).await {
                // It was recorded before the pin.
                Ok(_) if self.store.snapshot(&id).await?.is_some() => continue,
                Ok(record) => {
                    self.store.add_snapshot(&record).await?;
                    self.quotas.existing_snapshot(&record);
                }
                // It was deleted since the list was made.
                Err(Error::Snapshot(SnapshotError::Damaged { source })) if is_no_object(&*source) => continue,
                Err(error) => return Err(error),
            }
            tracing::info!(snapshot = %id, "found a snapshot that the database did not have");
        }
        Ok(())
    }

    /// One snapshot.
    pub async fn get(&self, id: &Authorized<SnapshotId>) -> Result<SnapshotRecord, Error> {
        self.record(id).await
    }

    /// The record of a snapshot.
    pub(in crate::service) async fn record(&self, id: &SnapshotId) -> Result<SnapshotRecord, Error> {
        let found = self.store.snapshot(id).await?;
        found.ok_or_else(|| Refusal::NotFound(Resource::Snapshot).into())
    }

    /// Snapshots that `owner` covers, newest first, also those that were imported and those of deleted sandboxes. With
    /// `sandbox`, only those of this sandbox.
    pub async fn list(
        &self,
        owner: &Owner,
        sandbox: Option<&SandboxId>,
        before: Option<&SnapshotCursor>,
        limit: u32,
    ) -> Result<Vec<SnapshotRecord>, Error> {
        Ok(self.store.snapshots_seen_by(owner, sandbox, before, limit).await?)
    }

    /// Deletes a snapshot. A later collection removes the chunks that no other snapshot has.
    pub async fn delete(self: &Arc<Self>, id: &Authorized<SnapshotId>) -> Result<(), Error> {
        let (snapshots, id) = (Arc::clone(self), (**id).clone());
        self.tasks.run_detached(async move { snapshots.delete_now(&id).await }).await
    }

    /// As [`Self::delete`], of a snapshot that no request names. `reason` is for the audit record.
    async fn delete_by_daemon(&self, record: &SnapshotRecord, reason: &'static str) -> Result<(), Error> {
        let recorder = self.audit.of_daemon(Act::SnapshotDelete, &record.sandbox, &record.owner, reason);
        let recorder = recorder.about("snapshotId", record.id.as_str());
        recorder.begin().await?;
        recorder.ended(self.delete_now(&record.id).await)
    }

    async fn delete_now(&self, id: &SnapshotId) -> Result<(), Error> {
        let record = self.record(id).await?;
        let packs = self.packs.packs().await?;
        let _deleting = self.pins.begin_delete(id).ok_or(SnapshotError::InUse)?;
        // While there is a record, nothing of the snapshot is removed.
        manifest::delete(packs, id).await?;
        seam::at("discard.manifest");
        self.store.forget_snapshot(id).await?;
        self.quotas.release_snapshot(&record);
        self.was_deleted.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Deletes all snapshots of a sandbox that `owner` covers. The sandbox may be deleted already.
    pub async fn delete_all_of(self: &Arc<Self>, owner: &Owner, id: &SandboxId) -> Result<(), Error> {
        let (snapshots, owner, id) = (Arc::clone(self), owner.clone(), id.clone());
        self.tasks.run_detached(async move { snapshots.delete_all_now(&owner, &id).await }).await
    }

    async fn delete_all_now(&self, owner: &Owner, id: &SandboxId) -> Result<(), Error> {
        // A snapshot that is being made would be recorded afterwards.
        let _busy = self.busy.begin_checkpoint(id).await;
        while let Some(latest) = self.store.snapshots_seen_by(owner, Some(id), None, 1).await?.pop() {
            self.delete_by_daemon(&latest, "sandbox deleted").await?;
        }
        Ok(())
    }

    /// Waits for the project's turn. Snapshots take processor time, so few are made at once.
    async fn turn(&self, project: &ProjectName) -> Result<Turn, Error> {
        match timeout(limits::SNAPSHOT_TURN, self.permits.take(project)).await {
            Ok(turn) => Ok(turn),
            Err(_) => Err(Refusal::LimitReached {
                limit: "snapshots and restores at once".into(),
                value: limits::MAX_SNAPSHOTS as u64,
            }
            .into()),
        }
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn is_no_object(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    matches!(error.downcast_ref::<packs::Error>(), Some(packs::Error::NoObject { .. }))
}

/// The root directory of a snapshot.
fn root_of(record: &SnapshotRecord) -> Result<Content, Error> {
    Content::decode(&*record.root)
        .map_err(|source| Error::Snapshot(SnapshotError::Damaged { source: Box::new(source) }))
}

/// Chunks that are stored and belong to no snapshot yet. If they never do, a collection removes them.
struct UnusedChunks<'a> {
    was_deleted: &'a AtomicBool,
    are_used: bool,
}

impl Drop for UnusedChunks<'_> {
    fn drop(&mut self) {
        if !self.are_used {
            self.was_deleted.store(true, Ordering::Relaxed);
        }
    }
}
