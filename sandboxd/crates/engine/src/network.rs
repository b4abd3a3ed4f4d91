//! Networks: bridges on which containers cannot see each other. The publishers share one, and the open sandboxes
//! share one. Every other network with our labels is a leftover.
//!
//! The engine isolates the containers of a bridge, and only the options of the network show it. So a network with
//! the right name and other options is not used.

use std::collections::HashMap;

use bollard::models::{NetworkCreateRequest, NetworkInspect};
use bollard::query_parameters::ListNetworksOptions;

use super::labels::{INSTANCE, SYSTEM};
use super::{Engine, Error};
use sandboxd_model::limits;

/// By default, the containers of a bridge reach each other.
const NO_NEIGHBOURS: (&str, &str) = ("com.docker.network.bridge.enable_icc", "false");

/// Label value of the original daemon's network.
const SANDBOX_NET: &str = "sandbox-net";

impl Engine {
    /// Creates a network. Idempotent: succeeds if it exists.
    pub async fn ensure_network(&self, name: &str) -> Result<(), Error> {
        if self.has_network(name).await? {
            return Ok(());
        }
        let labels = [(INSTANCE, self.instance.id()), (SYSTEM, SANDBOX_NET)];
        let request = NetworkCreateRequest {
            name: name.to_owned(),
            driver: Some("bridge".into()),
            enable_ipv6: Some(false),
            options: Some(map([NO_NEIGHBOURS])),
            labels: Some(map(labels)),
            ..NetworkCreateRequest::default()
        };
        let create = self.docker.create_network(request);
        match self.call("create network", limits::ENGINE_CALL, create).await {
            Err(Error::Conflict { .. }) => self.has_network(name).await.map(drop),
            other => other.map(drop),
        }
    }

    async fn has_network(&self, name: &str) -> Result<bool, Error> {
        let inspect = self.docker.inspect_network(name);
        match self.call("inspect network", limits::ENGINE_CALL, inspect).await {
            Ok(network) if self.is_as_we_make_them(&network) => Ok(true),
            Ok(_) => Err(Error::OtherNetwork { name: name.to_owned() }),
            Err(Error::Absent { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_as_we_make_them(&self, network: &NetworkInspect) -> bool {
        let has = |map: &Option<HashMap<String, String>>, (key, value): (&str, &str)| {
            map.as_ref().and_then(|map| map.get(key)).is_some_and(|found| found == value)
        };
        has(&network.labels, (INSTANCE, self.instance.id()))
            && has(&network.options, NO_NEIGHBOURS)
            && network.enable_ipv6 != Some(true)
    }

    /// Removes the networks with our instance id whose names are not `kept`. Returns their number.
    pub async fn remove_networks(&self, kept: impl Fn(&str) -> bool) -> Result<usize, Error> {
        let label = format!("{INSTANCE}={}", self.instance.id());
        let options =
            ListNetworksOptions { filters: Some(HashMap::from([("label".to_owned(), vec![label])])) };
        let list = self.docker.list_networks(options);
        let networks = self.call("list networks", limits::ENGINE_CALL, list).await?;
        let relics = networks.into_iter().filter(|network| !network.name.as_deref().is_some_and(&kept));
        let ids: Vec<String> = relics.filter_map(|network| network.id).collect();
        for id in &ids {
            match self.call("remove network", limits::ENGINE_CALL, self.docker.remove_network(id)).await {
                Ok(()) | Err(Error::Absent { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ids.len())
    }
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> HashMap<String, String> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}
