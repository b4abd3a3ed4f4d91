//! Sandboxes.

use http::Method;
use sandbox_api::sandbox::{
    CreateSandbox, ListSandboxes, ParkSandbox, Sandbox, SandboxCreated, SandboxList, TouchSandbox,
    WorkspaceSource,
};
use sandbox_api::{Done, SandboxId};

use crate::deadlines::{ACT, FETCH, LOOK};
use crate::request::json;
use crate::{Client, Error};

impl Client {
    /// Returns the session's sandbox, and creates it if there is none. Safe to repeat.
    pub async fn create_or_reconnect(&self, body: &CreateSandbox) -> Result<SandboxCreated, Error> {
        let is_fetched =
            matches!(body.workspace, Some(WorkspaceSource::Repository(_))) || body.packages.is_some();
        json(self.post("/v1/sandboxes", body), if is_fetched { FETCH } else { ACT }).await
    }

    /// Returns one page of sandboxes, sorted by id.
    pub async fn list(&self, which: &ListSandboxes) -> Result<SandboxList, Error> {
        json(self.request(Method::GET, "/v1/sandboxes").query(which), LOOK).await
    }

    /// Returns a sandbox with its resource usage. Neither wakes it nor counts as use.
    pub async fn get(&self, sandbox: &SandboxId) -> Result<Sandbox, Error> {
        json(self.request(Method::GET, &path_of(sandbox)), LOOK).await
    }

    /// Counts as use of a sandbox and can change its idle time. Safe to repeat.
    pub async fn touch(&self, sandbox: &SandboxId, idle_ttl_ms: Option<u64>) -> Result<Done, Error> {
        let body = TouchSandbox { idle_ttl_ms };
        json(self.post(&format!("{}:touch", path_of(sandbox)), &body), ACT).await
    }

    /// Removes a sandbox's container and keeps its files. Rejected with `wrong_state` while a command or a program on
    /// a terminal runs, unless `force` is set, which ends it. Safe to repeat.
    pub async fn park(&self, sandbox: &SandboxId, force: bool) -> Result<Done, Error> {
        let body = ParkSandbox { force: Some(force) };
        json(self.post(&format!("{}:park", path_of(sandbox)), &body), ACT).await
    }

    /// Deletes a sandbox and its files. Safe to repeat.
    pub async fn delete(&self, sandbox: &SandboxId) -> Result<Done, Error> {
        json(self.request(Method::DELETE, &path_of(sandbox)), ACT).await
    }

    /// Deletes a sandbox, its files and its snapshots. Safe to repeat.
    pub async fn delete_with_snapshots(&self, sandbox: &SandboxId) -> Result<Done, Error> {
        let request = self.request(Method::DELETE, &path_of(sandbox));
        json(request.query(&[("snapshots", true)]), ACT).await
    }

    /// Deletes a sandbox and its files if it is parked and no request is about to use it. Otherwise changes nothing
    /// and fails with `wrong_state`. Safe to repeat.
    pub async fn delete_if_parked(&self, sandbox: &SandboxId) -> Result<Done, Error> {
        let request = self.request(Method::DELETE, &path_of(sandbox));
        json(request.query(&[("ifState", "parked")]), ACT).await
    }
}

fn path_of(sandbox: &SandboxId) -> String {
    format!("/v1/sandboxes/{sandbox}")
}
