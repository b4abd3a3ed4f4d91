//! Sandboxes, from create to delete: which session has which, their states, and their objects on the engine.
//!
//! An [`order::OrderLock`] orders the operations on one sandbox. Lifecycle operations run in tracked tasks that finish
//! even if the caller stops waiting. A half-created sandbox is worse than one that is no longer needed.

mod activity;
mod bridge;
mod capacity;
mod container;
mod create;
mod delete;
mod drift;
mod order;
mod originals;
mod orphans;
mod park;
mod prepare;
mod probe;
mod reach;
mod readiness;
mod reconcile;
mod registry;
mod restore;
mod retention;
mod sandbox;
mod update;
mod view;
mod wake;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, Weak};

use futures::future::BoxFuture;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::SandboxState;
use tokio::sync::{Mutex, Semaphore, watch};

pub(in crate::service) use self::activity::{Activity, InUseMark};
pub use self::create::Reconnected;
pub use self::orphans::OrphanView;
pub(in crate::service) use self::reach::InUse;
pub(in crate::service) use self::readiness::Prepared;
pub use self::readiness::Readiness;
use self::registry::Registry;
pub(in crate::service) use self::sandbox::Sandbox;
pub use self::update::Changes;
pub use self::view::{SandboxUsage, SandboxView, Selection};
use super::clock::Age;
use super::egress::Egress;
use super::history::History;
use super::ownership::Ownership;
use super::storage::Storage;
use super::tasks::Tasks;
use super::{Context, Error, Setup};
use crate::engine::Engine;
use crate::metrics::{Metrics, Repair};
use crate::model::{Instance, Orphan, limits};
use crate::store::Store;

/// What other components have attached to a sandbox. They remove it before the sandbox is deleted.
pub(in crate::service) trait Attachments: fmt::Debug + Send + Sync {
    /// Called before anything of the sandbox is removed. An error stops the delete, which is retried later.
    fn before_delete<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<(), Error>>;

    /// Called after everything of the sandbox was removed.
    fn after_delete<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, ()>;
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
    ownership: Arc<Ownership>,
    storage: Arc<Storage>,
    history: Arc<History>,
    egress: Arc<Egress>,
    registry: Registry,
    age: Age,
    /// One permit for each sandbox that may run.
    permits: Arc<Semaphore>,
    /// Held while a sandbox is parked to free its permit for another.
    evicting: Mutex<()>,
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
    readiness: watch::Sender<Readiness>,
    attachments: OnceLock<Weak<dyn Attachments>>,
}

impl Lifecycle {
    pub(in crate::service) async fn new(
        context: &Context,
        ownership: &Arc<Ownership>,
        storage: &Arc<Storage>,
        history: &Arc<History>,
        egress: &Arc<Egress>,
    ) -> Result<Self, Error> {
        Ok(Self {
            engine: context.engine.clone(),
            age: Age::resume(context.store.age_ms().await?),
            store: Arc::clone(&context.store),
            registry: Registry::new(context.instance.seed()),
            instance: Arc::clone(&context.instance),
            permits: Arc::new(Semaphore::new(context.setup.limits.max_concurrent)),
            setup: Arc::clone(&context.setup),
            metrics: Arc::clone(&context.metrics),
            tasks: context.tasks.clone(),
            ownership: Arc::clone(ownership),
            storage: Arc::clone(storage),
            history: Arc::clone(history),
            egress: Arc::clone(egress),
            evicting: Mutex::default(),
            bridging: Mutex::default(),
            reconciling: Mutex::default(),
            weaknesses: OnceLock::new(),
            orphans: std::sync::Mutex::default(),
            warned_of: std::sync::Mutex::default(),
            prepared: OnceLock::new(),
            readiness: watch::Sender::new(Readiness::Waiting { missing: "start-up" }),
            attachments: OnceLock::new(),
        })
    }

    /// Sets what is removed with each sandbox. Later calls have no effect.
    pub(in crate::service) fn set_attachments(&self, attachments: Weak<dyn Attachments>) {
        let _ = self.attachments.set(attachments);
    }

    fn attachments(&self) -> Option<Arc<dyn Attachments>> {
        self.attachments.get()?.upgrade()
    }

    /// Whether a client may request an image. Names are compared literally: a tag does not match its digest.
    pub fn allows_image(&self, image: &str) -> bool {
        image == self.setup.image || self.setup.allowed_images.iter().any(|allowed| allowed == image)
    }

    /// The state of every sandbox.
    pub(in crate::service) fn states(&self) -> Vec<SandboxState> {
        self.registry.all().iter().map(|sandbox| sandbox.stage().state()).collect()
    }

    /// All sandboxes, in order of their ids.
    pub(in crate::service) fn all(&self) -> Vec<Arc<Sandbox>> {
        self.registry.all()
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
        self.registry.all().iter().filter_map(disk_of).collect()
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
