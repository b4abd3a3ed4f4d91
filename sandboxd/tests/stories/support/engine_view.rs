//! Objects on the engine, listed without the daemon's knowledge.

use std::collections::HashMap;

use bollard::query_parameters::{ListContainersOptions, ListNetworksOptions, ListVolumesOptions};

use crate::support::harness::{Home, docker};

/// Objects of the daemon itself: the disks' helper and volume, and the engine's marker.
const OWN: [&str; 3] = ["sandboxd-disks-", "sandboxd-marker-", "sandboxd-epoch-"];

/// Names of all networks of this home's daemon.
pub(crate) async fn networks_of(home: &Home) -> Vec<String> {
    let label = format!("sandboxd.instance={}", home.instance().unwrap().id());
    let options = ListNetworksOptions { filters: Some(HashMap::from([("label".to_owned(), vec![label])])) };
    let networks = docker().await.list_networks(Some(options)).await.unwrap();
    networks.into_iter().filter_map(|network| network.name).collect()
}

/// Names of all containers and volumes of this home's daemon. The agent's volume, which all daemons of a version share,
/// is not included. Neither are the disks' helper and volume.
pub(crate) async fn objects_of(home: &Home) -> Vec<String> {
    let Some(instance) = home.instance() else { return Vec::new() };
    let docker = docker().await;
    let label = format!("sandboxd.instance={}", instance.id());
    let filters = HashMap::from([("label".to_owned(), vec![label])]);
    let options = ListContainersOptions { all: true, filters: Some(filters.clone()), ..Default::default() };
    let containers = docker.list_containers(Some(options)).await.unwrap();
    let containers = containers.into_iter().flat_map(|container| container.names.unwrap_or_default());
    let options = ListVolumesOptions { filters: Some(filters) };
    let volumes = docker.list_volumes(Some(options)).await.unwrap().volumes.unwrap_or_default();
    let mut names: Vec<String> = containers.chain(volumes.into_iter().map(|volume| volume.name)).collect();
    names.retain(|name| !OWN.iter().any(|own| name.contains(own)));
    names.sort();
    names
}
