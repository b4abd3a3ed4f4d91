//! Workspaces and disks on the engine that belong to no sandbox.

use http::Method;
use sandbox_api::Done;
use sandbox_api::orphan::OrphanList;

use crate::deadlines::{ACT, LOOK};
use crate::request::json;
use crate::{Client, Error};

impl Client {
    /// Returns the workspaces and disks on the engine that belong to no sandbox.
    pub async fn orphans(&self) -> Result<OrphanList, Error> {
        json(self.request(Method::GET, "/v1/orphans"), LOOK).await
    }

    /// Removes one of them at once, with its files.
    pub async fn remove_orphan(&self, name: &str) -> Result<Done, Error> {
        json(self.request(Method::DELETE, &format!("/v1/orphans/{name}")), ACT).await
    }
}
