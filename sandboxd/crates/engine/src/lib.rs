//! Docker: containers, volumes, disks, images, labels.
//!
//! Only this crate opens the engine's socket. It only touches objects with our labels and our instance id. It never
//! uses the archive endpoints on a container that has run: the engine would follow a link planted by the sandbox as
//! root. Every call has a time limit, because an engine may hang.

mod agent_volume;
mod base_image;
mod carrier;
mod cgroup;
mod client;
mod container;
mod disk_fault;
mod disks;
mod docker_api;
mod error;
mod events;
mod facts;
mod image;
mod labels;
mod marker;
mod network;
mod originals;
mod own;
mod posture;
mod progress;
mod publisher;
mod runtime;
mod settings;
mod tar;
mod unix_transport;
mod usage;
mod volume_plugin;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::time::timeout;

/// Name of the volume plugin's program, which is beside the agent's.
pub use ::volume_plugin::PROGRAM as VOLUME_PLUGIN;
pub use agent_volume::AgentVolume;
pub use cgroup::CgroupParent;
pub use container::{Containers, Found, Inspected, Status, VolumePresence};
pub use disk_fault::DiskFault;
pub use disks::{Attached, BaseUse, DiskPool, DiskUse, Disks, DisksProof, Space};
pub use error::Error;
pub use events::Change;
pub use facts::Facts;
pub use labels::SandboxLabels;
pub use marker::{Epoch, Volumes};
pub use originals::Original;
pub use publisher::{FoundPublisher, PUBLISHER_SOCKET, Published, PublisherPlan};
pub use runtime::Runtime;
pub use settings::{ContainerPlan, Host, NO_NETWORK, container_body};

use crate::docker_api::{Answer, DockerApi};
use sandboxd_metrics::Metrics;
use sandboxd_model::{EngineAddress, Instance, limits};

/// A connection to the engine, cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    docker: DockerApi,
    address: EngineAddress,
    instance: Arc<Instance>,
    oci_runtime: Option<String>,
    host: Arc<OnceLock<Host>>,
    metrics: Arc<Metrics>,
}

impl Engine {
    /// Creates a client of the engine. Sends nothing: the engine may be absent until [`Self::meet`].
    pub fn new(
        address: EngineAddress,
        instance: Arc<Instance>,
        oci_runtime: Option<String>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Error> {
        let docker = DockerApi::new(client::open(&address)?);
        Ok(Self { docker, address, instance, oci_runtime, host: Arc::default(), metrics })
    }

    /// Creates a client of an engine that responds.
    pub async fn connect(
        address: EngineAddress,
        instance: Arc<Instance>,
        oci_runtime: Option<String>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Error> {
        let engine = Self::new(address, instance, oci_runtime, metrics)?;
        engine.meet().await?;
        Ok(engine)
    }

    /// Negotiates an API version and reads what the settings of a container depend on. Once is enough.
    pub async fn meet(&self) -> Result<(), Error> {
        if self.host.get().is_some() {
            return Ok(());
        }
        let at = || self.address.to_string();
        // Clones share the version.
        let negotiated = timeout(limits::ENGINE_PING * 2, self.docker.negotiate_version()).await;
        negotiated
            .map_err(|_| Error::NoAnswer { address: at() })?
            .map_err(|source| Error::unreachable(&self.address, source))?;
        let info = timeout(limits::ENGINE_CALL, self.docker.info())
            .await
            .map_err(|_| Error::NoAnswer { address: at() })?
            .map_err(|source| Error::unreachable(&self.address, source))?;
        let runtime = Runtime::of(&info, self.oci_runtime.clone())?;
        let by_systemd = info.cgroup_driver == Some(bollard::models::SystemInfoCgroupDriverEnum::SYSTEMD);
        let cgroup_parent = if by_systemd { CgroupParent::Slice } else { CgroupParent::Directory };
        let processors = info.ncpu.unwrap_or(1).max(1);
        self.host.get_or_init(|| Host { cgroup_parent, runtime, processors });
        Ok(())
    }

    /// What the settings of every container depend on. Fails before [`Self::meet`].
    pub fn host(&self) -> Result<&Host, Error> {
        self.host.get().ok_or_else(|| Error::NoAnswer { address: self.address.to_string() })
    }

    /// Asks the engine for its version. Fails within two seconds if the engine does not respond.
    pub async fn version(&self) -> Result<String, Error> {
        let version = self.call("version", limits::ENGINE_PING, self.docker.version()).await?;
        Ok(version.version.unwrap_or_default())
    }

    /// Whether a directory of this machine can be mounted into a container.
    pub fn is_local(&self) -> bool {
        matches!(self.address, EngineAddress::Unix(_))
    }

    /// Whether the agent's process can be identified by the pid that the engine reports. It cannot if a runtime
    /// puts another process in front of the agent.
    pub fn shows_agent_pid(&self) -> bool {
        self.host.get().is_some_and(|host| host.runtime.shares_kernel())
    }

    /// What the runtime cannot enforce, or enforces less strictly than runc, as short phrases.
    pub fn runtime_weaknesses(&self) -> Vec<&'static str> {
        self.host.get().map(|host| host.runtime.weaknesses()).unwrap_or_default()
    }

    async fn call<T>(
        &self,
        call: &'static str,
        deadline: Duration,
        answer: Answer<'_, T>,
    ) -> Result<T, Error> {
        let began = Instant::now();
        let answer = match timeout(deadline, answer).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(source)) => Err(Error::from_call(call, &self.address, source)),
            Err(_) => Err(Error::Deadline { call, after: deadline }),
        };
        self.metrics.engine_call(call, began.elapsed(), answer.as_ref().err().map(Error::kind));
        answer
    }
}
