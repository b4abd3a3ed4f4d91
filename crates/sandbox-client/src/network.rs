//! Network policies and denied connections.

use http::Method;
use sandbox_api::SandboxId;
use sandbox_api::network::DenialList;
use sandbox_api::sandbox::Network;

use crate::deadlines::ACT;
use crate::request::json;
use crate::{Client, Error};

impl Client {
    /// Changes the network policy of a sandbox. Absent fields keep their value. Returns the new policy. Safe to
    /// repeat.
    pub async fn change_network(&self, sandbox: &SandboxId, body: &Network) -> Result<Network, Error> {
        let request = self.request(Method::PATCH, &format!("/v1/sandboxes/{sandbox}/network"));
        json(request.json(body), ACT).await
    }

    /// Returns the latest hosts that a sandbox requested and was denied, newest first.
    pub async fn denials(&self, sandbox: &SandboxId) -> Result<DenialList, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/network/denials")), ACT).await
    }
}
