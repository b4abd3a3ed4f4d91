//! Networks. No sandbox has one. Publishers have one together, in which they cannot see each other; every other network
//! with our labels is a relic.

use std::collections::HashMap;

use bollard::models::NetworkCreateRequest;
use bollard::query_parameters::ListNetworksOptions;

use super::labels::INSTANCE;
use super::{Engine, Error};
use crate::model::limits;

/// Containers of one bridge reach each other unless it is told otherwise.
const NO_NEIGHBOURS: (&str, &str) = ("com.docker.network.bridge.enable_icc", "false");

impl Engine {
    /// Makes the publishers' network; done as well where it is there.
    pub async fn ensure_network(&self, name: &str) -> Result<(), Error> {
        let pair = |(key, value): (&str, &str)| HashMap::from([(key.to_owned(), value.to_owned())]);
        let request = NetworkCreateRequest {
            name: name.to_owned(),
            driver: Some("bridge".into()),
            enable_ipv6: Some(false),
            options: Some(pair(NO_NEIGHBOURS)),
            labels: Some(pair((INSTANCE, self.instance.id()))),
            ..NetworkCreateRequest::default()
        };
        let inspect = self.docker.inspect_network(name, None);
        match self.call("inspect network", limits::ENGINE_CALL, inspect).await {
            Err(Error::Absent { .. }) => {}
            other => return other.map(drop),
        }
        let create = self.docker.create_network(request);
        match self.call("create network", limits::ENGINE_CALL, create).await {
            Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes every network with our instance id but `kept`; how many there were.
    pub async fn remove_networks(&self, kept: Option<&str>) -> Result<usize, Error> {
        let label = format!("{INSTANCE}={}", self.instance.id());
        let options =
            ListNetworksOptions { filters: Some(HashMap::from([("label".to_owned(), vec![label])])) };
        let list = self.docker.list_networks(Some(options));
        let networks = self.call("list networks", limits::ENGINE_CALL, list).await?;
        let relics = networks.into_iter().filter(|network| network.name.as_deref() != kept || kept.is_none());
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
