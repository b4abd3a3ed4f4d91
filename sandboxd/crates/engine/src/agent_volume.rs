//! Puts the agent's program into a volume, so that every container can use it.
//!
//! There is one volume for each version of the program, named by its content. It is filled through a container that
//! is never started. A second daemon that finds the volume must know that it is complete. So the archive ends with
//! a marker, because the engine writes the members of an archive in order.

use std::path::Path;

use bollard::models::{MountVolumeOptions, Volume};
use bollard::query_parameters::{
    ContainerArchiveInfoOptions, ListContainersOptions, UploadToContainerOptions,
};
use sha2::{Digest, Sha256};

use super::carrier::volume_mount;
use super::labels::INSTANCE;
use super::tar::Archive;
use super::{Engine, Error};
use sandboxd_model::layout::{AGENT_DIR, CA_BUNDLE_NAME};
use sandboxd_model::limits;

const PROGRAM_NAME: &str = "sandbox-agent";
const MARK_NAME: &str = "complete";

/// Label of an agent volume. Its value is the digest of the content.
const LABEL: &str = "sandboxd.agent";

/// Hexadecimal digits of the content's SHA-256 in the volume's name.
const DIGEST_CHARS: usize = 16;

/// A volume that has the agent's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentVolume {
    /// Its name.
    pub name: String,
    /// When the engine created it, in the engine's words. A volume of the same name that was created later may be empty.
    pub created_at: String,
}

impl Engine {
    /// Whether the engine still has this volume.
    pub async fn has_agent_volume(&self, volume: &AgentVolume) -> Result<bool, Error> {
        let inspect = self.docker.inspect_volume(&volume.name);
        match self.call("inspect agent volume", limits::ENGINE_CALL, inspect).await {
            Ok(found) => {
                Ok(found.labels.contains_key(LABEL) && created_at(&found) == Some(volume.created_at.as_str()))
            }
            Err(Error::Absent { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ensures that the engine has the agent at `program` and, if there are any, certificates in PEM beside it.
    pub async fn ensure_agent_volume(
        &self,
        program: &Path,
        ca_bundle: Option<&[u8]>,
        image: &str,
    ) -> Result<AgentVolume, Error> {
        let read = tokio::fs::read(program).await;
        let content = read.map_err(|source| Error::AgentProgram { path: program.to_owned(), source })?;
        let digest = Sha256::new().chain_update(&content).chain_update(ca_bundle.unwrap_or_default());
        let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let digest = &digest[..DIGEST_CHARS];
        let volume = format!("sandboxd-agent-{digest}");

        // Left by a start that was interrupted.
        self.remove_carriers().await?;
        let carrier = format!("{}{digest}", self.carrier_prefix());
        self.create_agent_carrier(&carrier, &volume, digest, image).await?;
        let filled = self.fill(&carrier, &content, ca_bundle).await;
        let removed = self.remove_container(&carrier).await;
        filled.and(removed)?;
        let inspect = self.docker.inspect_volume(&volume);
        let found = self.call("inspect agent volume", limits::ENGINE_CALL, inspect).await?;
        let created_at = created_at(&found).unwrap_or_default().to_owned();
        Ok(AgentVolume { name: volume, created_at })
    }

    /// Removes what an interrupted upload left.
    pub(super) async fn remove_carriers(&self) -> Result<(), Error> {
        let filters = [
            ("name".to_owned(), vec![self.carrier_prefix()]),
            // Any container can have this name.
            ("label".to_owned(), vec![format!("{INSTANCE}={}", self.instance.id())]),
        ];
        let options =
            ListContainersOptions { all: true, filters: Some(filters.into()), ..Default::default() };
        let list = self.docker.list_containers(options);
        for found in self.call("list agent carriers", limits::ENGINE_CALL, list).await? {
            self.remove_container(&found.id.unwrap_or_default()).await?;
        }
        Ok(())
    }

    /// The names begin with the instance's id, followed by the digest.
    fn carrier_prefix(&self) -> String {
        format!("sandboxd-agent-upload-{}-", self.instance.id())
    }

    async fn create_agent_carrier(
        &self,
        name: &str,
        volume: &str,
        digest: &str,
        image: &str,
    ) -> Result<(), Error> {
        let labels = Some([(LABEL.into(), digest.into())].into());
        let options = MountVolumeOptions { labels, ..MountVolumeOptions::default() };
        self.create_carrier("create agent carrier", name, image, volume_mount(volume, AGENT_DIR, options))
            .await
    }

    async fn fill(&self, carrier: &str, content: &[u8], ca_bundle: Option<&[u8]>) -> Result<(), Error> {
        let mark = ContainerArchiveInfoOptions { path: format!("{AGENT_DIR}/{MARK_NAME}") };
        let look = self.docker.get_container_archive_info(carrier, mark);
        match self.call("look for the agent", limits::ENGINE_CALL, look).await {
            Ok(_) => return Ok(()),
            Err(Error::Absent { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut archive = Archive::new();
        let written = archive
            .file(PROGRAM_NAME, 0o755, content)
            .and_then(|()| ca_bundle.map_or(Ok(()), |pem| archive.file(CA_BUNDLE_NAME, 0o444, pem)))
            .and_then(|()| archive.file(MARK_NAME, 0o444, b"complete\n"));
        let bytes = written.and_then(|()| archive.finish()).expect("memory takes every write");
        let options = UploadToContainerOptions { path: AGENT_DIR.into(), ..Default::default() };
        let upload = self.docker.upload_to_container(carrier, options, bytes);
        self.call("upload the agent", limits::ENGINE_CALL, upload).await
    }
}

fn created_at(volume: &Volume) -> Option<&str> {
    volume.created_at.as_deref()
}
