//! Operations on wrapped servers.

use sandbox_api::SandboxId;

use crate::{Error, Store};
use sandboxd_model::mcp::McpServerRecord;

impl Store {
    /// All wrapped servers, in order of their sandboxes and names.
    pub async fn mcp_servers(&self) -> Result<Vec<McpServerRecord>, Error> {
        self.database.mcp_servers().await
    }

    /// Writes a wrapped server. Replaces the one with the same sandbox and name.
    pub async fn put_mcp_server(&self, server: &McpServerRecord) -> Result<(), Error> {
        self.database.put_mcp_server(server).await
    }

    /// Deletes a wrapped server.
    pub async fn forget_mcp_server(&self, sandbox: &SandboxId, name: &str) -> Result<(), Error> {
        self.database.delete_mcp_server(sandbox, name).await
    }
}
