//! Ports of a sandbox, and links to them.

use http::Method;
use sandbox_api::port::{CreateLink, Link, LinkList, PortFound, Ports};
use sandbox_api::{Done, LinkId, SandboxId};

use crate::deadlines::ACT;
use crate::request::json;
use crate::{Client, Error};

impl Client {
    /// Returns the listening sockets, published ports and links of a sandbox.
    pub async fn ports(&self, sandbox: &SandboxId) -> Result<Ports, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/ports")), ACT).await
    }

    /// Returns a URL for a port that lasts as long as the sandbox. Safe to repeat: the result is the same.
    pub async fn find_port(&self, sandbox: &SandboxId, port: u16) -> Result<PortFound, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/ports/{port}")), ACT).await
    }

    /// Creates a link to a port. Not safe to repeat: each call creates one.
    pub async fn create_link(
        &self,
        sandbox: &SandboxId,
        port: u16,
        body: &CreateLink,
    ) -> Result<Link, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/ports/{port}/links"), body), ACT).await
    }

    /// Returns the valid links to a port.
    pub async fn links(&self, sandbox: &SandboxId, port: u16) -> Result<LinkList, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/ports/{port}/links")), ACT).await
    }

    /// Revokes a link and closes open connections through it. Safe to repeat.
    pub async fn revoke_link(&self, sandbox: &SandboxId, port: u16, link: &LinkId) -> Result<Done, Error> {
        json(self.request(Method::DELETE, &format!("/v1/sandboxes/{sandbox}/ports/{port}/links/{link}")), ACT)
            .await
    }
}
