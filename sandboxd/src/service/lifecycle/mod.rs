//! Sandboxes, from create to delete: which session has which, their states, and their objects on the engine.
//!
//! An [`order::OrderLock`] orders the operations on one sandbox. Lifecycle operations run in tracked tasks that finish
//! even if the caller stops waiting. A half-created sandbox is worse than one that is no longer needed.

mod activity;
mod bases;
mod bridge;
mod capacity;
mod checkpoints;
mod claim;
mod container;
mod create;
mod delete;
mod drift;
mod evictions;
mod exclusive;
mod making_room;
mod notes;
mod order;
mod originals;
mod orphans;
mod park;
mod park_checkpoints;
mod pool;
mod prepare;
mod probe;
mod reach;
mod readiness;
mod reconcile;
mod registry;
mod restore;
mod retention;
mod sandbox;
mod start_record;
mod update;
mod value_ledger;
mod view;
mod waiting;
mod wake;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::num::NonZero;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::thread::available_parallelism;
use std::time::Duration;

use futures::future::BoxFuture;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::SandboxState;
use tokio::sync::{Mutex, watch};

pub(in crate::service) use self::activity::{Activity, InUseMark};
pub(in crate::service) use self::checkpoints::{Act, DueCheckpoint};
pub use self::create::Reconnected;
use self::evictions::Evictions;
pub use self::orphans::OrphanView;
pub(in crate::service) use self::park_checkpoints::StoredFiles;
use self::pool::Pool;
pub(in crate::service) use self::reach::InUse;
pub(in crate::service) use self::readiness::Prepared;
pub use self::readiness::Readiness;
use self::registry::Registry;
pub(in crate::service) use self::sandbox::Sandbox;
use self::start_record::StartRecord;
pub use self::update::Changes;
pub(in crate::service) use self::value_ledger::ValueLedger;
pub use self::view::{SandboxUsage, SandboxView, Selection};
use super::audit::{Audit, Recorder};
use super::clock::Age;
use super::egress::Egress;
use super::history::History;
use super::ownership::Ownership;
use super::quotas::{Quotas, Turns};
use super::storage::{BaseSource, Storage};
use super::tasks::Tasks;
use super::{Context, Error, Setup};
use crate::agent::AgentHandle;
use crate::engine::Engine;
use crate::metrics::{Metrics, Repair};
use crate::model::{Instance, Orphan, Owner, ProjectName, SessionKey, audit, limits};
use crate::store::Store;

/// What other components have attached to a sandbox. They remove it before the sandbox is deleted.
pub(in crate::service) trait Attachments: fmt::Debug + Send + Sync {
    /// Called before anything of the sandbox is removed. An error stops the delete, which is retried later.
    fn before_delete<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<(), Error>>;

    /// Called after everything of the sandbox was removed.
    fn after_delete<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, ()>;
}

/// Gives a new sandbox its first files and values, before it accepts requests.
pub(in crate::service) trait Seed: fmt::Debug + Send + Sync {
    /// What a base with the files is made of. `None` if each sandbox gets its own files.
    fn base(&self) -> Option<&dyn BaseSource>;
    /// Writes the files to a sandbox without a base. Called when the agent has answered. An error undoes the create.
    fn fill<'a>(&'a self, agent: &'a AgentHandle) -> BoxFuture<'a, Result<(), Error>>;
    /// Keeps its values with a sandbox, which is in the store. Called after it has its files. An error undoes the create.
    fn keep_values<'a>(&'a self, sandbox: &'a Sandbox) -> BoxFuture<'a, Result<(), Error>>;
}

/// How a new sandbox begins.
#[derive(Debug, Clone, Default)]
pub(in crate::service) struct Beginning {
    /// Its first files and values.
    pub(in crate::service) seed: Option<Arc<dyn Seed>>,
    /// It is one of several of which all are created or none. It serves no request before [`Lifecycle::confirm`], and if the
    /// daemon ends before, the next start removes it.
    pub(in crate::service) is_tentative: bool,
}

impl Beginning {
    /// Whether the sandbox can begin with a container that was started before.
    fn fits_started(&self) -> bool {
        !self.is_tentative && self.seed.is_none()
    }
}

/// Makes a snapshot in a remote store of each sandbox that is parked, unless the last one has the same files.
pub(in crate::service) trait ParkCheckpoints: fmt::Debug + Send + Sync {
    /// Whether there is a remote store.
    fn are_made(&self) -> bool;

    /// Makes one of a sandbox that nothing else uses, within `limit`. Returns whether the store has the files now.
    fn make<'a>(
        self: Arc<Self>,
        sandbox: &'a Sandbox,
        agent: &'a AgentHandle,
        limit: Duration,
    ) -> BoxFuture<'a, bool>;

    /// As [`Self::make`], for a sandbox that may be used meanwhile. `None` if a snapshot of it is made already.
    fn make_early<'a>(
        self: Arc<Self>,
        sandbox: &'a Sandbox,
        agent: &'a AgentHandle,
    ) -> BoxFuture<'a, Option<bool>>;
}

/// Creates, finds, parks, wakes and deletes sandboxes.
#[derive(Debug)]
pub struct Lifecycle {
    engine: Engine,
    store: Arc<Store>,
    instance: Arc<Instance>,
    setup: Arc<Setup>,
    metrics: Arc<Metrics>,
    tasks: Tasks,
    audit: Arc<Audit>,
    ownership: Arc<Ownership>,
    storage: Arc<Storage>,
    history: Arc<History>,
    egress: Arc<Egress>,
    registry: Registry,
    pool: Pool,
    age: Age,
    quotas: Arc<Quotas>,
    evictions: Evictions,
    /// Turns to start a container, one for each processor. More at once would only slow each other down, and the commands of
    /// all sandboxes with them.
    starts: Turns,
    /// Held while the bridge of open sandboxes is created or removed.
    bridging: Mutex<()>,
    /// Held while the engine's objects are compared with the registry.
    reconciling: Mutex<()>,
    /// What this host cannot enforce for any sandbox, in words for the posture. Set during the start.
    weaknesses: OnceLock<Vec<String>>,
    /// Objects on the engine that no sandbox claims, as of the last sweep.
    orphans: std::sync::Mutex<Vec<Orphan>>,
    /// Containers that the log has warned about, so that it names each only once.
    warned_of: std::sync::Mutex<HashSet<String>>,
    prepared: OnceLock<Prepared>,
    start_record: StartRecord,
    readiness: watch::Sender<Readiness>,
    attachments: OnceLock<Weak<dyn Attachments>>,
    park_checkpoints: OnceLock<Weak<dyn ParkCheckpoints>>,
    /// Sandboxes whose files are those of no snapshot, because a restore was interrupted.
    blocked: watch::Sender<HashSet<SandboxId>>,
}

impl Lifecycle {
    pub(in crate::service) async fn new(
        context: &Context,
        audit: &Arc<Audit>,
        ownership: &Arc<Ownership>,
        storage: &Arc<Storage>,
        history: &Arc<History>,
        egress: &Arc<Egress>,
        quotas: &Arc<Quotas>,
    ) -> Result<Self, Error> {
        Ok(Self {
            engine: context.engine.clone(),
            age: Age::resume(context.store.age_ms().await?),
            store: Arc::clone(&context.store),
            registry: Registry::new(context.instance.seed()),
            pool: Pool::default(),
            instance: Arc::clone(&context.instance),
            setup: Arc::clone(&context.setup),
            metrics: Arc::clone(&context.metrics),
            tasks: context.tasks.clone(),
            audit: Arc::clone(audit),
            ownership: Arc::clone(ownership),
            storage: Arc::clone(storage),
            history: Arc::clone(history),
            egress: Arc::clone(egress),
            quotas: Arc::clone(quotas),
            evictions: Evictions::default(),
            starts: Turns::new(available_parallelism().map_or(1, NonZero::get).max(limits::MIN_STARTS)),
            bridging: Mutex::default(),
            reconciling: Mutex::default(),
            weaknesses: OnceLock::new(),
            orphans: std::sync::Mutex::default(),
            warned_of: std::sync::Mutex::default(),
            prepared: OnceLock::new(),
            start_record: StartRecord::new(&context.setup),
            readiness: watch::Sender::new(Readiness::Waiting { missing: "start-up" }),
            attachments: OnceLock::new(),
            park_checkpoints: OnceLock::new(),
            blocked: watch::Sender::default(),
        })
    }

    /// Sets what is removed with each sandbox. Later calls have no effect.
    pub(in crate::service) fn set_attachments(&self, attachments: Weak<dyn Attachments>) {
        let _ = self.attachments.set(attachments);
    }

    fn attachments(&self) -> Option<Arc<dyn Attachments>> {
        self.attachments.get()?.upgrade()
    }

    /// Records an act of the daemon itself on a sandbox.
    fn recorder(&self, act: audit::Act, sandbox: &Sandbox, reason: &'static str) -> Recorder {
        self.audit.of_daemon(act, sandbox.id(), sandbox.owner(), reason)
    }

    /// Whether a client may request an image. Names are compared literally: a tag does not match its digest.
    pub fn allows_image(&self, image: &str) -> bool {
        image == self.setup.image || self.setup.allowed_images.iter().any(|allowed| allowed == image)
    }

    /// The state of every sandbox.
    pub(in crate::service) fn states(&self) -> Vec<SandboxState> {
        self.registry.all().iter().map(|sandbox| sandbox.stage().state()).collect()
    }

    /// The projects of all sandboxes.
    pub(in crate::service) fn projects(&self) -> BTreeSet<ProjectName> {
        self.registry.all().iter().map(|sandbox| sandbox.owner().project.clone()).collect()
    }

    /// All sandboxes, in order of their ids.
    pub(in crate::service) fn all(&self) -> Vec<Arc<Sandbox>> {
        self.registry.all()
    }

    /// Whether a session has a sandbox.
    pub(in crate::service) fn has_session(&self, owner: &Owner, key: &SessionKey) -> bool {
        self.registry.of_session(owner, key).is_some()
    }

    /// The sandbox with this id, if it exists.
    pub(in crate::service) fn registered(&self, id: &SandboxId) -> Option<Arc<Sandbox>> {
        self.registry.get(id)
    }

    /// Names of the disks that belong to sandboxes.
    pub(in crate::service) fn claimed_disks(&self) -> HashSet<String> {
        let disk_of = |sandbox: &Arc<Sandbox>| {
            sandbox.with_facts(|facts| facts.record.disk.as_ref().map(|disk| disk.name().to_owned()))
        };
        self.registry.all().iter().chain(&self.registry.waiting()).filter_map(disk_of).collect()
    }

    /// Names of the drivers of the volumes over bases.
    pub(in crate::service) fn volume_drivers(&self) -> HashSet<String> {
        let driver_of = |sandbox: &Arc<Sandbox>| {
            sandbox.with_facts(|facts| Some(facts.record.disk.as_ref()?.lower()?.driver().to_owned()))
        };
        self.registry.all().iter().filter_map(driver_of).collect()
    }

    /// Counts a repair.
    fn count_repair(&self, repair: Repair) {
        self.metrics.repaired(repair);
    }

    /// Logs a warning about a container, but only once for each container.
    fn warn_once(&self, container: &str, warning: &str) {
        let mut warned_of = self.warned_of.lock().unwrap_or_else(PoisonError::into_inner);
        if warned_of.len() >= limits::MAX_WARNED_CONTAINERS {
            warned_of.clear();
        }
        if warned_of.insert(container.to_owned()) {
            tracing::warn!(container, "{warning}");
        }
    }
}
