//! Published ports. A container listens on a port that the engine publishes on the host. It forwards every
//! connection to a socket of the daemon.
//!
//! The sandbox keeps its network `none`. The publisher runs socat and nothing of the sandbox. It is as hardened as a
//! sandbox, and sees one directory of the host, read-only, with one socket in it. Docker API 1.41.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerStateStatusEnum, HostConfig, HostConfigLogConfig,
    Mount, MountType, PortBinding,
};
use bollard::query_parameters::{CreateContainerOptions, ListContainersOptions};
use sandbox_api::SandboxId;
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};
use tracing::warn;

use super::labels::{INSTANCE, PROXY_PORT, SANDBOX_ID, SESSION_KEY};
use super::settings::SECCOMP_PROFILE;
use super::{Engine, Error, Host};
use sandboxd_model::layout::publisher_name;
use sandboxd_model::{SessionKey, UidSlot, limits};

/// Directory of the socket in the container. Publishers of earlier versions use these names, so they must not change.
const SOCKET_DIR: &str = "/.sandbox/door";

/// Name of the socket, on the host and in the container. Publishers of earlier versions use it, as [`SOCKET_DIR`].
pub const PUBLISHER_SOCKET: &str = "door.sock";

/// socat has one process for each connection, and one that listens.
const PIDS: i64 = MAX_CHILDREN as i64 + 8;
const MAX_CHILDREN: usize = limits::MAX_PUBLISHED_CONNECTIONS + limits::EXTRA_PUBLISHED_CONNECTIONS;
const MEMORY_BYTES: i64 = 128 * 1024 * 1024;
const NANO_CPUS: i64 = 1_000_000_000;

/// Everything that a publisher is created from.
#[derive(Debug, Clone)]
pub struct PublisherPlan {
    /// Sandbox of the port.
    pub sandbox: SandboxId,
    /// Session of the sandbox.
    pub session_key: SessionKey,
    /// Slot of the publisher's user id.
    pub slot: UidSlot,
    /// Port in the sandbox.
    pub port: u16,
    /// An image that has socat.
    pub image: String,
    /// Directory of [`PUBLISHER_SOCKET`] on the host.
    pub socket_dir: String,
    /// Network of the publishers. It must exist.
    pub network: String,
    /// Host address that the port is published on.
    pub host_ip: IpAddr,
    /// Previous host port. It is used again if it is free.
    pub host_port: Option<u16>,
}

/// Addresses of a running publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Host port that the engine chose.
    pub host_port: u16,
    /// The publisher's own address, if the engine reports it.
    pub address: Option<IpAddr>,
}

/// An existing publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPublisher {
    /// Sandbox of the port, according to the labels.
    pub sandbox: SandboxId,
    /// Port in the sandbox.
    pub port: u16,
    /// The engine's id.
    pub container_id: String,
}

impl Engine {
    /// Starts a publisher and replaces an existing one.
    pub async fn publish(&self, plan: &PublisherPlan) -> Result<Published, Error> {
        match self.start_publisher(plan).await {
            // Another program may use the port meanwhile. The second attempt reports any other cause.
            Err(_) if plan.host_port.is_some() => {
                self.start_publisher(&PublisherPlan { host_port: None, ..plan.clone() }).await
            }
            started => started,
        }
    }

    async fn start_publisher(&self, plan: &PublisherPlan) -> Result<Published, Error> {
        let name = publisher_name(&plan.sandbox, plan.port);
        match self.create_publisher(&name, plan).await {
            Err(Error::Conflict { .. }) => {
                self.unpublish(&plan.sandbox, plan.port).await?;
                self.create_publisher(&name, plan).await?;
            }
            other => other?,
        }
        let start = self.docker.start_container(&name);
        self.call("start publisher", limits::ENGINE_CALL, start).await?;
        let published = self.published(&plan.sandbox, plan.port).await?;
        let published = published.ok_or_else(|| Error::NotPublished { name })?;
        if let Some(address) = published.address {
            listens(SocketAddr::new(address, plan.port)).await;
        }
        Ok(published)
    }

    async fn create_publisher(&self, name: &str, plan: &PublisherPlan) -> Result<(), Error> {
        let options = CreateContainerOptions { name: Some(name.to_owned()), ..Default::default() };
        let create = self.docker.create_container(options, self.publisher_body(plan, self.host()?));
        match self.call("create publisher", limits::ENGINE_CALL, create).await {
            Err(Error::Absent { .. }) => Err(Error::ImageMissing { image: plan.image.clone() }),
            other => other.map(drop),
        }
    }

    /// Where a sandbox's port is published, if its publisher runs.
    pub async fn published(&self, sandbox: &SandboxId, port: u16) -> Result<Option<Published>, Error> {
        let name = publisher_name(sandbox, port);
        let inspect = self.docker.inspect_container(&name);
        match self.call("inspect publisher", limits::ENGINE_CALL, inspect).await {
            Ok(container) if self.is_ours(&container) => Ok(published(&container, port)),
            Ok(_) | Err(Error::Absent { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a publisher has ended and is not being removed.
    pub async fn publisher_died(&self, sandbox: &SandboxId, port: u16) -> Result<bool, Error> {
        let name = publisher_name(sandbox, port);
        let inspect = self.docker.inspect_container(&name);
        match self.call("inspect publisher", limits::ENGINE_CALL, inspect).await {
            Ok(container) if self.is_ours(&container) => {
                let status = container.state.and_then(|state| state.status);
                Ok(status == Some(ContainerStateStatusEnum::EXITED))
            }
            Ok(_) | Err(Error::Absent { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a publisher. Idempotent: succeeds if there is none of ours.
    pub async fn unpublish(&self, sandbox: &SandboxId, port: u16) -> Result<(), Error> {
        let name = publisher_name(sandbox, port);
        let inspect = self.docker.inspect_container(&name);
        match self.call("inspect publisher", limits::ENGINE_CALL, inspect).await {
            Ok(container) if self.is_ours(&container) => {
                self.remove_container(container.id.as_deref().unwrap_or(&name)).await
            }
            Ok(_) | Err(Error::Absent { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Every publisher with our instance id, running or not.
    pub async fn publishers(&self) -> Result<Vec<FoundPublisher>, Error> {
        let labels = vec![format!("{INSTANCE}={}", self.instance.id()), PROXY_PORT.to_owned()];
        let filters = HashMap::from([("label".to_owned(), labels)]);
        let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        let list = self.docker.list_containers(options);
        let containers = self.call("list publishers", limits::ENGINE_CALL, list).await?;
        let found = |container: bollard::models::ContainerSummary| {
            let labels = container.labels?;
            Some(FoundPublisher {
                sandbox: labels.get(SANDBOX_ID)?.parse().ok()?,
                port: labels.get(PROXY_PORT)?.parse().ok()?,
                container_id: container.id?,
            })
        };
        Ok(containers.into_iter().filter_map(found).collect())
    }

    /// Removes a listed publisher.
    pub async fn remove_publisher(&self, found: &FoundPublisher) -> Result<(), Error> {
        self.remove_container(&found.container_id).await
    }

    fn publisher_body(&self, plan: &PublisherPlan, host: &Host) -> ContainerCreateBody {
        let uid = plan.slot.uid();
        let labels = [
            (INSTANCE, self.instance.id().to_owned()),
            (SANDBOX_ID, plan.sandbox.to_string()),
            (SESSION_KEY, plan.session_key.to_string()),
            (PROXY_PORT, plan.port.to_string()),
        ];
        let listen = format!("TCP-LISTEN:{},fork,reuseaddr,max-children={MAX_CHILDREN}", plan.port);
        ContainerCreateBody {
            image: Some(plan.image.clone()),
            user: Some(format!("{uid}:{uid}")),
            entrypoint: Some(vec!["socat".into()]),
            cmd: Some(vec![listen, format!("UNIX-CONNECT:{SOCKET_DIR}/{PUBLISHER_SOCKET}")]),
            working_dir: Some("/".into()),
            env: Some(Vec::new()),
            labels: Some(labels.map(|(name, value)| (name.to_owned(), value)).into()),
            stop_signal: Some("SIGKILL".into()),
            stop_timeout: Some(0),
            exposed_ports: Some(vec![format!("{}/tcp", plan.port)]),
            host_config: Some(Self::publisher_host_config(plan, host)),
            ..ContainerCreateBody::default()
        }
    }

    fn publisher_host_config(plan: &PublisherPlan, host: &Host) -> HostConfig {
        // Empty means any free port.
        let host_port = plan.host_port.map(|port| port.to_string()).unwrap_or_default();
        let binding = PortBinding { host_ip: Some(plan.host_ip.to_string()), host_port: Some(host_port) };
        HostConfig {
            init: Some(false),
            readonly_rootfs: Some(true),
            privileged: Some(false),
            cap_drop: Some(vec!["ALL".into()]),
            security_opt: Some(vec!["no-new-privileges:true".into(), format!("seccomp={SECCOMP_PROFILE}")]),
            network_mode: Some(plan.network.clone()),
            port_bindings: Some(HashMap::from([(format!("{}/tcp", plan.port), Some(vec![binding]))])),
            // Lets an ordinary user listen on any port of a network that is the container's own.
            sysctls: Some(HashMap::from([(
                "net.ipv4.ip_unprivileged_port_start".to_owned(),
                "0".to_owned(),
            )])),
            ipc_mode: Some("none".into()),
            cgroup_parent: Some(host.cgroup_parent.name().into()),
            pids_limit: Some(PIDS),
            memory: Some(MEMORY_BYTES),
            memory_swap: Some(MEMORY_BYTES),
            nano_cpus: Some(NANO_CPUS),
            mounts: Some(vec![Mount {
                typ: Some(MountType::BIND),
                source: Some(plan.socket_dir.clone()),
                target: Some(SOCKET_DIR.into()),
                read_only: Some(true),
                ..Mount::default()
            }]),
            log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
            auto_remove: Some(false),
            ..HostConfig::default()
        }
    }
}

/// Waits until a publisher that has started listens. Before that, the host port accepts connections and closes
/// them. There is no socket yet, so the connection that is tried here leads nowhere.
async fn listens(at: SocketAddr) {
    let wait = async {
        let mut tick = interval(Duration::from_millis(5));
        loop {
            tick.tick().await;
            match timeout(limits::PUBLISHER_PROBE, TcpStream::connect(at)).await {
                Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {}
                _ => return,
            }
        }
    };
    if timeout(limits::PUBLISHER_READY, wait).await.is_err() {
        warn!(%at, after = ?limits::PUBLISHER_READY, "a publisher does not listen");
    }
}

/// `None` if the container does not run.
fn published(container: &ContainerInspectResponse, port: u16) -> Option<Published> {
    if container.state.as_ref()?.running != Some(true) {
        return None;
    }
    let settings = container.network_settings.as_ref()?;
    let bindings = settings.ports.as_ref()?.get(&format!("{port}/tcp"))?.as_ref()?;
    let host_port = bindings.iter().find_map(|binding| binding.host_port.as_ref()?.parse().ok())?;
    let mut networks = settings.networks.iter().flat_map(HashMap::values);
    let address = networks.find_map(|network| network.ip_address.as_ref()?.parse().ok());
    Some(Published { host_port, address })
}
