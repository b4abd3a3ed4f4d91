//! Every decision: which sandbox a session has, what runs in it, what is refused and why.
//!
//! Rooms below are hands (engine, agent) and do not see each other; rooms above (api) only translate. Order
//! within one sandbox is kept by its [`order::OrderLock`]. Lifecycle verbs run in tracked tasks that finish
//! whether or not their caller waits, because a half-made sandbox is worse than one nobody asked for any
//! more.

mod adopt;
mod census;
mod command;
mod error;
mod files;
mod follow;
mod order;
mod prepare;
mod reach;
mod registry;
mod sandbox;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tokio_util::task::TaskTracker;

pub use error::Error;
pub use follow::CommandStream;
pub use prepare::Readiness;
pub use sandbox::Reconnected;

use self::prepare::Prepared;
use self::registry::Registry;
use crate::engine::{Engine, ImageSource};
use crate::model::{Instance, Limits, Transport};

/// What the service is set up with.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Bounds that the operator sets.
    pub limits: Limits,
    /// Directory of the agents' sockets, this installation's own.
    pub run_dir: PathBuf,
    /// Tag of the sandbox image.
    pub image: String,
    /// What the image is built from where it is missing; `None` forbids building.
    pub image_source: Option<ImageSource>,
    /// The agent's program on this machine.
    pub agent_program: PathBuf,
    /// How agents are reached; `None` finds out.
    pub transport: Option<Transport>,
}

/// The daemon without its door.
#[derive(Debug)]
pub struct Service {
    engine: Engine,
    instance: Arc<Instance>,
    setup: Setup,
    registry: Registry,
    prepared: OnceLock<Prepared>,
    readiness: watch::Sender<Readiness>,
    tasks: TaskTracker,
}

impl Service {
    /// A service that must still be prepared.
    pub fn new(engine: Engine, instance: Arc<Instance>, setup: Setup, tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self {
            engine,
            registry: Registry::new(setup.limits.max_concurrent, instance.seed()),
            instance,
            setup,
            prepared: OnceLock::new(),
            readiness: watch::Sender::new(Readiness::Waiting { missing: "start-up" }),
            tasks,
        })
    }

    /// Bounds that the operator sets.
    pub fn limits(&self) -> Limits {
        self.setup.limits
    }

    /// From now on readers that leave do not end their commands: it is the daemon that leaves.
    pub fn stop(&self) {
        self.tasks.close();
    }

    fn is_stopping(&self) -> bool {
        self.tasks.is_closed()
    }

    /// The engine's version, asked now.
    pub async fn engine_version(&self) -> Result<String, Error> {
        Ok(self.engine.version().await?)
    }
}
