//! Every decision: which sandbox a session has, what runs in it, what is refused and why.
//!
//! Rooms below are hands (engine, agent) and do not see each other; rooms above (api) only translate. Order
//! within one sandbox is kept by its [`order::OrderLock`]. Lifecycle verbs run in tracked tasks that finish
//! whether or not their caller waits, because a half-made sandbox is worse than one nobody asked for any
//! more.

mod activity;
mod age;
mod batch;
mod bridge;
mod capacity;
mod census;
mod command;
mod deadline;
mod disk;
mod doors;
mod egress;
mod epoch;
mod error;
mod feed;
mod files;
mod follow;
mod history;
mod identity;
mod keeper;
mod linking;
mod links;
mod meddling;
mod oom;
mod order;
mod originals;
mod orphans;
mod outlet;
mod park;
mod port;
mod prepare;
mod publish;
mod published_visits;
mod publisher_door;
mod reach;
mod reconcile;
mod recording;
mod refusal;
mod registry;
mod room;
mod sandbox;
mod stdin;
mod terminal;
mod terminal_view;
mod view;

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError};

use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use batch::{Ran, RanToEnd};
pub use doors::Door;
pub use egress::Denial;
pub use error::Error;
pub use files::UploadFailed;
pub use follow::CommandStream;
pub use links::{Link, LinkWish};
pub use orphans::OrphanView;
pub use port::{PreviewTrace, PreviewUse};
pub use prepare::Readiness;
pub use sandbox::{Changes, Reconnected};
pub use terminal_view::{TerminalHand, TerminalView};
pub use view::{SandboxUsage, SandboxView, Selection};

use self::age::Age;
use self::identity::Identity;
use self::links::Links;
use self::prepare::Prepared;
use self::publish::Publications;
use self::registry::Registry;
// Streams and facts that the service returns as it gets them, so that its callers see no crate below it.
pub use crate::agent::{ByteStream, ChangeStream, Error as AgentError, StdinData, Tunnel};
use crate::egress::{self as egress_room, Gate};
pub use crate::engine::Seccomp;
use crate::engine::{Engine, ImageSource};
use crate::metrics::Repair;
use crate::model::preview::PreviewSettings;
use crate::model::{DiskQuota, Instance, Limits, Orphan, Transport, limits};
use crate::store::Store;

/// What the service is set up with.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Bounds that the operator sets.
    pub limits: Limits,
    /// Directory of the agents' sockets, this installation's own.
    pub run_dir: PathBuf,
    /// Tells the state dir from a copy of it.
    pub holder: String,
    /// Tag of the sandbox image.
    pub image: String,
    /// Images that a caller may ask for besides that.
    pub allowed_images: Vec<String>,
    /// What the image is built from where it is missing; `None` forbids building.
    pub image_source: Option<ImageSource>,
    /// The agent's program on this machine.
    pub agent_program: PathBuf,
    /// Whether sandboxes of the original daemon are taken over.
    pub adopt_original: bool,
    /// Whether workspaces must have a quota.
    pub disk_quota: DiskQuota,
    /// How agents are reached; `None` finds out.
    pub transport: Option<Transport>,
    /// Where previews are found.
    pub preview: PreviewSettings,
    /// An image that has socat, to publish ports with; `None` finds one.
    pub proxy_image: Option<String>,
    /// What networks of ours are called, before the instance's id.
    pub network_name: String,
    /// Whether a sandbox may have a network of its own.
    pub open_network: bool,
    /// What sandboxes reach of the world, as the operator has it.
    pub egress: egress_room::Settings,
    /// Ports of this machine that they never reach.
    pub own_ports: Vec<RangeInclusive<u16>>,
}

/// The daemon without its door.
#[derive(Debug)]
pub struct Service {
    engine: Engine,
    store: Store,
    instance: Arc<Instance>,
    setup: Setup,
    registry: Registry,
    links: Links,
    publications: Publications,
    gate: Arc<Gate>,
    age: Age,
    /// One permit for each sandbox that may run.
    places: Arc<Semaphore>,
    /// Held by the one who parks a sandbox for another.
    making_room: Mutex<()>,
    /// Held by the one who makes or removes the open sandboxes' bridge.
    bridging: Mutex<()>,
    /// Held by the one who compares what is with what should be.
    reconciling: Mutex<()>,
    /// Whether workspaces have a quota, from when that is known.
    quota: OnceLock<disk::Quota>,
    /// What this host cannot hold any sandbox to, from when that is known.
    weaknesses: OnceLock<Vec<String>>,
    /// What is known of the room for disks.
    room: room::Room,
    /// Whose engine this is.
    identity: Identity,
    /// What the engine has and no sandbox claims, as of the last look.
    orphans: std::sync::Mutex<Vec<Orphan>>,
    /// Unused disks that belonged to nobody at the last look.
    suspect_disks: std::sync::Mutex<HashSet<String>>,
    /// Cancelled when nobody is to watch commands any more.
    watching: CancellationToken,
    /// Whether the engine tells whose memory was not enough.
    ooms_watched: oom::Watched,
    /// What streams hold of their commands' events.
    feeds: feed::Feeds,
    /// Containers that were warned of, so that the log has each once.
    warned_of: std::sync::Mutex<HashSet<String>>,
    prepared: OnceLock<Prepared>,
    readiness: watch::Sender<Readiness>,
    tasks: TaskTracker,
}

impl Service {
    /// A service that must still be prepared.
    pub async fn new(
        engine: Engine,
        store: Store,
        instance: Arc<Instance>,
        setup: Setup,
        tasks: TaskTracker,
    ) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            engine,
            age: Age::resume(store.age_ms().await?),
            store,
            registry: Registry::new(instance.seed()),
            links: Links::default(),
            publications: Publications::default(),
            gate: Arc::new(Gate::new(setup.egress.clone(), setup.own_ports.clone())),
            places: Arc::new(Semaphore::new(setup.limits.max_concurrent)),
            making_room: Mutex::default(),
            bridging: Mutex::default(),
            reconciling: Mutex::default(),
            quota: OnceLock::new(),
            weaknesses: OnceLock::new(),
            room: room::Room::default(),
            identity: Identity::default(),
            orphans: std::sync::Mutex::default(),
            suspect_disks: std::sync::Mutex::default(),
            watching: CancellationToken::new(),
            ooms_watched: oom::Watched::default(),
            feeds: feed::Feeds::default(),
            warned_of: std::sync::Mutex::default(),
            instance,
            setup,
            prepared: OnceLock::new(),
            readiness: watch::Sender::new(Readiness::Waiting { missing: "start-up" }),
            tasks,
        }))
    }

    /// Whether a caller may ask for an image. Its name is compared as it is: a tag is not its digest.
    pub fn allows_image(&self, image: &str) -> bool {
        image == self.setup.image || self.setup.allowed_images.iter().any(|allowed| allowed == image)
    }

    /// Bounds that the operator sets.
    pub fn limits(&self) -> Limits {
        self.setup.limits
    }

    /// From now on readers that leave do not end their commands: it is the daemon that leaves.
    pub fn stop(&self) {
        self.tasks.close();
    }

    /// Writes down what only memory knows and closes the store. The last thing at a stop.
    pub async fn close(&self) {
        self.watching.cancel();
        // The helper is another daemon's where there is a newer one: then there are no disks here.
        if timeout(limits::CLOSE_DISKS, self.close_disks()).await.is_err() {
            tracing::warn!("the engine does not answer; the disks' helper ends by itself");
        }
        self.write_down().await;
        self.store.close().await;
    }

    /// Whether the store can be written now.
    pub async fn check_store(&self) -> Result<(), Error> {
        Ok(self.store.check().await?)
    }

    /// What this host cannot hold any sandbox to.
    fn host_weaknesses(&self) -> &[String] {
        self.weaknesses.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Counts something that was not as it should have been.
    fn repaired(&self, what: Repair) {
        self.metrics().repaired(what);
    }

    fn warn_once(&self, container: &str, warning: &str) {
        let mut warned_of = self.warned_of.lock().unwrap_or_else(PoisonError::into_inner);
        if warned_of.len() >= limits::MAX_WARNED_OF {
            warned_of.clear();
        }
        if warned_of.insert(container.to_owned()) {
            tracing::warn!(container, "{warning}");
        }
    }

    fn is_stopping(&self) -> bool {
        self.tasks.is_closed()
    }

    /// The engine's version, asked now.
    pub async fn engine_version(&self) -> Result<String, Error> {
        Ok(self.engine.version().await?)
    }
}
