//! Ports of a sandbox, and links that lead there.

use reqwest::Method;
use sandbox_api::port::{CreateLink, Link, LinkList, PortFound, Ports};
use sandbox_api::{Done, LinkId, SandboxId};

use crate::{ACT, Client, Error, json};

impl Client {
    /// What listens in a sandbox, and what leads there from outside.
    pub async fn ports(&self, sandbox: &SandboxId) -> Result<Ports, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/ports")), ACT).await
    }

    /// A URL under which a port is found, as good as the sandbox. Safe to repeat: the answer is the same.
    pub async fn find_port(&self, sandbox: &SandboxId, port: u16) -> Result<PortFound, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/ports/{port}")), ACT).await
    }

    /// Makes a link to a port. Not safe to repeat: each call makes one.
    pub async fn create_link(
        &self,
        sandbox: &SandboxId,
        port: u16,
        wish: &CreateLink,
    ) -> Result<Link, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/ports/{port}/links"), wish), ACT).await
    }

    /// The links to a port that lead there.
    pub async fn links(&self, sandbox: &SandboxId, port: u16) -> Result<LinkList, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/ports/{port}/links")), ACT).await
    }

    /// Takes a link back, and cuts off whoever looks at the preview through it. Safe to repeat.
    pub async fn revoke_link(&self, sandbox: &SandboxId, port: u16, link: &LinkId) -> Result<Done, Error> {
        json(self.request(Method::DELETE, &format!("/v1/sandboxes/{sandbox}/ports/{port}/links/{link}")), ACT)
            .await
    }
}
