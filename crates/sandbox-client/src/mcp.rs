//! Wrapped servers.

use http::Method;
use sandbox_api::mcp::{ApproveMcpServer, McpServer, McpServerList, McpServerOpened, RegisterMcpServer};
use sandbox_api::{Done, SandboxId};

use crate::deadlines::{ACT, LOOK};
use crate::request::json;
use crate::{Client, Error};

impl Client {
    /// Registers a wrapped server. Fails with `already_exists` if the name is taken by another one. Safe to repeat.
    pub async fn register_mcp_server(
        &self,
        sandbox: &SandboxId,
        body: &RegisterMcpServer,
    ) -> Result<McpServer, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/mcp"), body), ACT).await
    }

    /// Returns the wrapped servers of a sandbox. Neither wakes it nor counts as use.
    pub async fn mcp_servers(&self, sandbox: &SandboxId) -> Result<McpServerList, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/mcp")), LOOK).await
    }

    /// Returns a wrapped server. Neither wakes its sandbox nor counts as use.
    pub async fn mcp_server(&self, sandbox: &SandboxId, name: &str) -> Result<McpServer, Error> {
        json(self.request(Method::GET, &path_of(sandbox, name)), LOOK).await
    }

    /// Removes a wrapped server. Safe to repeat.
    pub async fn remove_mcp_server(&self, sandbox: &SandboxId, name: &str) -> Result<Done, Error> {
        json(self.request(Method::DELETE, &path_of(sandbox, name)), ACT).await
    }

    /// Approves the tools or the version of a wrapped server. Safe to repeat.
    pub async fn approve_mcp_server(
        &self,
        sandbox: &SandboxId,
        name: &str,
        body: &ApproveMcpServer,
    ) -> Result<McpServer, Error> {
        json(self.post(&format!("{}:approve", path_of(sandbox, name)), body), ACT).await
    }

    /// Prepares the sandbox in which a wrapped server runs: creates or wakes it. Safe to repeat.
    pub async fn open_mcp_server(&self, sandbox: &SandboxId, name: &str) -> Result<McpServerOpened, Error> {
        json(self.request(Method::POST, &format!("{}:open", path_of(sandbox, name))), ACT).await
    }
}

fn path_of(sandbox: &SandboxId, name: &str) -> String {
    format!("/v1/sandboxes/{sandbox}/mcp/{name}")
}
