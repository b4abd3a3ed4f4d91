//! Which containers and volumes are a sandbox's.
//!
//! A name proves nothing: any user of the engine can rename a container, and give its name to another container or to
//! a volume. A container belongs to a sandbox if it has the sandbox's signed labels, and its name or its volume. A
//! container created from an image of it (`docker commit`) inherits the labels and lacks both.

use std::collections::HashMap;

use bollard::models::{ContainerInspectResponse, ContainerSummary};
use bollard::query_parameters::{ListContainersOptions, RenameContainerOptions};
use sandbox_api::SandboxId;
use tracing::warn;

use super::labels::{INSTANCE, PROXY_PORT, SANDBOX_ID};
use super::{Engine, Error, SandboxLabels};
use sandboxd_model::layout::{container_name, volume_name};
use sandboxd_model::limits;

impl Engine {
    /// The sandbox's containers, whatever their names, running or not. There should be at most one.
    async fn containers_of(&self, id: &SandboxId) -> Result<Vec<String>, Error> {
        let labels = vec![format!("{INSTANCE}={}", self.instance.id()), format!("{SANDBOX_ID}={id}")];
        let filters =
            HashMap::from([("label".to_owned(), labels), ("volume".to_owned(), vec![volume_name(id)])]);
        let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        let list = self.docker.list_containers(options);
        let mut containers = self.call("list containers", limits::ENGINE_CALL, list).await?;
        containers.retain(|container| self.owner_of(container).is_some_and(|labels| labels.id == *id));
        // Running containers come first.
        containers.sort_by_key(|container| !runs(container));
        Ok(containers.into_iter().filter_map(|container| container.id).collect())
    }

    /// The sandbox's container if its name leads to none, or to another one.
    pub(super) async fn find_renamed(&self, id: &SandboxId) -> Result<Option<String>, Error> {
        Ok(self.containers_of(id).await?.into_iter().next())
    }

    /// Removes every container of the sandbox except `kept`.
    pub async fn remove_others(&self, id: &SandboxId, kept: Option<&str>) -> Result<(), Error> {
        for container in self.containers_of(id).await? {
            if kept != Some(container.as_str()) {
                warn!(sandbox = %id, container, "removing a container of a sandbox that has another name or is left over");
                self.remove_container(&container).await?;
            }
        }
        Ok(())
    }

    /// Restores the name of a sandbox's container.
    pub async fn name_again(&self, id: &SandboxId, container: &str) -> Result<(), Error> {
        let rename =
            self.docker.rename_container(container, RenameContainerOptions { name: container_name(id) });
        self.call("rename container", limits::ENGINE_CALL, rename).await
    }

    /// Unpauses a sandbox's container.
    pub async fn unpause(&self, container: &str) -> Result<(), Error> {
        match self
            .call("unpause container", limits::ENGINE_CALL, self.docker.unpause_container(container))
            .await
        {
            // It already runs, or is gone. The next inspection shows which.
            Err(Error::Conflict { .. } | Error::Absent { .. }) => Ok(()),
            other => other,
        }
    }

    /// The sandbox of a listed container, if the container belongs to it.
    pub(super) fn owner_of(&self, container: &ContainerSummary) -> Option<SandboxLabels> {
        let map = container.labels.as_ref().filter(|map| !map.contains_key(PROXY_PORT))?;
        let labels = SandboxLabels::from_map(map, &self.instance)?;
        let (name, volume) = (container_name(&labels.id), volume_name(&labels.id));
        let mut names = container.names.iter().flatten();
        let mut mounts = container.mounts.iter().flatten();
        let is_named = names.any(|found| found.strip_prefix('/') == Some(&name));
        let is_its = is_named || mounts.any(|mount| mount.name.as_ref() == Some(&volume));
        is_its.then_some(labels)
    }

    /// Any container can have the name of a sandbox's container, even one of another sandbox.
    pub(super) fn is_of(&self, container: &ContainerInspectResponse, id: &SandboxId) -> bool {
        let labels = container.config.as_ref().and_then(|config| config.labels.as_ref());
        let of = labels.and_then(|labels| labels.get(SANDBOX_ID));
        self.is_ours(container) && of.is_some_and(|of| of == id.as_str())
    }

    /// Whether a volume with a sandbox's name belongs to the sandbox.
    pub(super) fn is_volume_of(&self, volume: &bollard::models::Volume, id: &SandboxId) -> bool {
        SandboxLabels::from_map(&volume.labels, &self.instance).is_some_and(|labels| labels.id == *id)
    }
}

/// Whether a listed container has processes. Those of a paused one continue later.
pub(super) fn runs(container: &ContainerSummary) -> bool {
    container.state.is_some_and(|state| matches!(state.to_string().as_str(), "running" | "paused"))
}
