//! What a sandbox may reach, and what it was refused.

use reqwest::Method;
use sandbox_api::SandboxId;
use sandbox_api::network::DenialList;
use sandbox_api::sandbox::Network;

use crate::{ACT, Client, Error, json};

impl Client {
    /// Changes what a sandbox may reach; what is left out stays. Answers with what holds then. Safe to repeat.
    pub async fn change_network(&self, sandbox: &SandboxId, wish: &Network) -> Result<Network, Error> {
        let request = self.request(Method::PATCH, &format!("/v1/sandboxes/{sandbox}/network"));
        json(request.json(wish), ACT).await
    }

    /// The latest hosts that a sandbox asked for and was refused, the newest first.
    pub async fn denials(&self, sandbox: &SandboxId) -> Result<DenialList, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/network/denials")), ACT).await
    }
}
