//! Networks. No sandbox has one, so every network with our labels is a relic.

use std::collections::HashMap;

use bollard::query_parameters::ListNetworksOptions;

use super::labels::INSTANCE;
use super::{Engine, Error};
use crate::model::limits;

impl Engine {
    /// Removes every network with our instance id; how many there were.
    pub async fn remove_networks(&self) -> Result<usize, Error> {
        let label = format!("{INSTANCE}={}", self.instance.id());
        let options =
            ListNetworksOptions { filters: Some(HashMap::from([("label".to_owned(), vec![label])])) };
        let list = self.docker.list_networks(Some(options));
        let networks = self.call("list networks", limits::ENGINE_CALL, list).await?;
        let ids: Vec<String> = networks.into_iter().filter_map(|network| network.id).collect();
        for id in &ids {
            match self.call("remove network", limits::ENGINE_CALL, self.docker.remove_network(id)).await {
                Ok(()) | Err(Error::Absent { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ids.len())
    }
}
