//! Sandboxes of the original daemon: containers with its labels and without an instance id.
//!
//! They have no agent, run as root and share a network, so they cannot be served as they are. Their files are
//! copied while the container does not run.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use bollard::query_parameters::{
    DownloadFromContainerOptions, ListContainersOptions, UploadToContainerOptions,
};
use futures::{StreamExt, TryStreamExt};
use tokio_util::io::{ReaderStream, StreamReader, SyncIoBridge};

use super::container::absent_is_done;
use super::labels::{INSTANCE, NETWORK_MODE, PORTS, PROXY_PORT, RUNTIME, SANDBOX_ID, SESSION_KEY};
use super::{ContainerPlan, Engine, Error};
use sandboxd_model::layout::{WORKSPACE, container_name};
use sandboxd_model::{NetworkMode, NetworkPolicy, Runtime, SandboxSpec, limits};

/// Buffer of the copy in bytes.
const COPY_BUFFER_BYTES: usize = 256 * 1024;

/// A container of the original daemon.
#[derive(Debug, Clone)]
pub struct Original {
    /// The engine's id.
    pub container_id: String,
    /// Id that the original daemon gave the sandbox.
    pub sandbox_id: String,
    /// Specification of a new sandbox for the same session. `None` for a container that only publishes a port, or
    /// has no session.
    pub spec: Option<SandboxSpec>,
}

impl Engine {
    /// Every container of the original daemon, running or not.
    pub async fn originals(&self) -> Result<Vec<Original>, Error> {
        let filters = HashMap::from([("label".to_owned(), vec![SANDBOX_ID.to_owned()])]);
        let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        let list = self.docker.list_containers(options);
        let containers = self.call("list containers", limits::ENGINE_CALL, list).await?;
        let original = |container: bollard::models::ContainerSummary| {
            let labels = container.labels.unwrap_or_default();
            if labels.contains_key(INSTANCE) {
                return None;
            }
            let spec = if labels.contains_key(PROXY_PORT) { None } else { spec_of(&labels) };
            let sandbox_id = labels.get(SANDBOX_ID).filter(|id| is_original_id(id))?.clone();
            Some(Original { container_id: container.id?, sandbox_id, spec })
        };
        Ok(containers.into_iter().filter_map(original).collect())
    }

    /// Copies an original's files into the volume of a container that is created for it and never started. Stops
    /// the original first, because root would follow links that change.
    pub async fn copy_original(&self, original: &Original, plan: &ContainerPlan) -> Result<(), Error> {
        let stop = self.docker.stop_container(&original.container_id);
        self.call("stop container", limits::ENGINE_CALL, stop).await?;
        self.create_unstarted(plan).await?;
        let name = container_name(&plan.labels.id);
        let options = DownloadFromContainerOptions { path: format!("{WORKSPACE}/.") };
        let download = self.docker.download_from_container(&original.container_id, options);
        let reader = StreamReader::new(download.map_err(io::Error::other));
        let (write_end, read_end) = tokio::io::duplex(COPY_BUFFER_BYTES);
        let (reader, writer) = (SyncIoBridge::new(Box::pin(reader)), SyncIoBridge::new(write_end));
        let uid = plan.labels.slot.uid();
        let rewrite = tokio::task::spawn_blocking(move || give_to(uid, reader, writer));
        let options = UploadToContainerOptions { path: WORKSPACE.into(), ..Default::default() };
        let body = ReaderStream::new(read_end).boxed();
        let upload = self.docker.stream_to_container(&name, options, body);
        let uploaded = self.call("copy files", limits::COPY_ORIGINAL, upload).await;
        let rewritten = rewrite.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        // If reading failed, writing fails too, with less information.
        rewritten.map_err(|source| Error::Copy { source })?;
        uploaded
    }

    /// Removes a container of the original daemon with its volume. Idempotent: succeeds if there is none.
    pub async fn remove_original(&self, original: &Original) -> Result<(), Error> {
        self.remove_container(&original.container_id).await?;
        if original.spec.is_none() {
            return Ok(());
        }
        let volume = format!("remcochat-sandbox-ws-{}", original.sandbox_id);
        // Any container can have the label, and the volume of one of our sandboxes is not the original's.
        let inspect = self.docker.inspect_volume(&volume);
        match self.call("inspect volume", limits::ENGINE_CALL, inspect).await {
            Ok(found) if found.labels.contains_key(INSTANCE) => return Ok(()),
            Err(Error::Absent { .. }) => return Ok(()),
            other => drop(other?),
        }
        let remove = self.docker.remove_volume(&volume);
        absent_is_done(self.call("remove volume", limits::ENGINE_CALL, remove).await)
    }
}

/// Whether the original daemon creates such ids: letters, digits, `_` and `-` (nanoid).
fn is_original_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Reads the original's labels. Drops what the original allowed and this daemon does not.
fn spec_of(labels: &HashMap<String, String>) -> Option<SandboxSpec> {
    let text = |name: &str| labels.get(name).map(String::as_str);
    let ports = text(PORTS).unwrap_or_default().split(',').filter_map(|port| port.trim().parse().ok());
    let ports: Vec<u32> = ports.take(sandboxd_model::sandbox::MAX_PORTS).collect();
    let network = text(NETWORK_MODE).and_then(|mode| NetworkMode::parse(mode, NETWORK_MODE).ok());
    // The original has no such mode, and a label is not the operator's permission.
    let network = network.filter(|mode| *mode != NetworkMode::Open);
    Some(SandboxSpec {
        runtime: text(RUNTIME).and_then(|name| name.parse().ok()).unwrap_or(Runtime::Node24),
        network: NetworkPolicy { mode: network.unwrap_or_default(), allow: Vec::new() },
        ports: sandboxd_model::sandbox::ports(&ports).unwrap_or_default(),
        ..SandboxSpec::new(text(SESSION_KEY)?.parse().ok()?)
    })
}

/// Copies an archive and gives every member to `uid`. Removes the setuid, setgid and sticky bits, and skips devices
/// and fifos.
fn give_to(uid: u32, from: impl Read, to: impl Write) -> io::Result<()> {
    let mut archive = tar::Archive::new(from);
    let mut rewritten = tar::Builder::new(to);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        let path = entry.path()?.into_owned();
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_uid(uid.into());
        header.set_gid(uid.into());
        header.set_mode(entry.header().mode()? & 0o777);
        header.set_mtime(entry.header().mtime()?);
        header.set_size(0);
        match kind {
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                header.set_size(entry.size());
                rewritten.append_data(&mut header, &path, &mut entry)?;
            }
            tar::EntryType::Directory => rewritten.append_data(&mut header, &path, io::empty())?,
            tar::EntryType::Symlink | tar::EntryType::Link => {
                if let Some(target) = entry.link_name()? {
                    rewritten.append_link(&mut header, &path, target)?;
                }
            }
            _ => {}
        }
    }
    rewritten.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network_of(mode: &str) -> NetworkMode {
        let labels = [(SESSION_KEY, "chat:1"), (NETWORK_MODE, mode)];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        spec_of(&labels.into()).unwrap().network.mode
    }

    #[test]
    fn no_label_opens_the_network() {
        assert_eq!(network_of("none"), NetworkMode::None);
        for mode in ["default", "open", "rubbish", ""] {
            assert_eq!(network_of(mode), NetworkMode::Default, "{mode:?}");
        }
    }
}
