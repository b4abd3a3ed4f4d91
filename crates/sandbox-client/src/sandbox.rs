//! Sandboxes.

use reqwest::Method;
use sandbox_api::sandbox::{CreateSandbox, SandboxCreated};
use sandbox_api::{Done, SandboxId};

use crate::{CALL, Client, Error, json};

impl Client {
    /// The session's sandbox, made if there is none. Safe to repeat.
    pub async fn create_or_reconnect(&self, wish: &CreateSandbox) -> Result<SandboxCreated, Error> {
        json(self.post("/v1/sandboxes", wish).timeout(CALL)).await
    }

    /// Deletes a sandbox with its files. Safe to repeat.
    pub async fn delete(&self, sandbox: &SandboxId) -> Result<Done, Error> {
        json(self.request(Method::DELETE, &format!("/v1/sandboxes/{sandbox}")).timeout(CALL)).await
    }
}
